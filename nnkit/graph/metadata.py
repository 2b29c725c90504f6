"""Keys of a node's `metadata_props` that one stage leaves for a later one."""

from __future__ import annotations

FUSE_INTO = "nnkit.fuse_into"
"""The output value of the op that this node's arithmetic becomes a part of."""

# The Caffe layer that a node was imported from. Every node of a layer has its type and name, the last one the rest:
# parameters as prototxt text, bottoms and weights as JSON lists, and whether it wrote its result over its input.
CAFFE_TYPE = "nnkit.caffe_type"
CAFFE_LAYER = "nnkit.caffe_layer"
CAFFE_PARAM = "nnkit.caffe_param"
CAFFE_BOTTOMS = "nnkit.caffe_bottoms"
CAFFE_WEIGHTS = "nnkit.caffe_weights"
CAFFE_IN_PLACE = "nnkit.caffe_in_place"
CAFFE_ORIGIN = (CAFFE_TYPE, CAFFE_LAYER, CAFFE_PARAM, CAFFE_BOTTOMS, CAFFE_WEIGHTS, CAFFE_IN_PLACE)
