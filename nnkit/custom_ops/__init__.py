"""The operators of the ONNX domain `ai.nnkit`: layers of Caffe and of NPUs that ONNX has no operator for."""

from nnkit.custom_ops.base import DOMAIN, VERSION, CustomOp
from nnkit.custom_ops.catalogue import (
    CUSTOM_OPS,
    has_custom_nodes,
    infer_shapes,
    infer_shapes_anew,
    is_custom,
    op_of,
    op_with,
    register_schemas,
    run_node,
)
from nnkit.custom_ops.custom import Custom, trust_source
from nnkit.custom_ops.detection_output import DetectionOutput
from nnkit.custom_ops.embedding import Embedding
from nnkit.custom_ops.non_max_suppression import FixedNonMaxSuppression
from nnkit.custom_ops.normalize import Normalize
from nnkit.custom_ops.pass_through import PassThrough
from nnkit.custom_ops.prior_box import PriorBox
from nnkit.custom_ops.proposal import Proposal
from nnkit.custom_ops.psroi_pooling import PSROIPooling
from nnkit.custom_ops.reorg import Reorg
from nnkit.custom_ops.roi_pooling import ROIPooling
from nnkit.custom_ops.warp_perspective import WarpPerspective

__all__ = [
    "CUSTOM_OPS",
    "DOMAIN",
    "VERSION",
    "Custom",
    "CustomOp",
    "DetectionOutput",
    "Embedding",
    "FixedNonMaxSuppression",
    "Normalize",
    "PSROIPooling",
    "PassThrough",
    "PriorBox",
    "Proposal",
    "ROIPooling",
    "Reorg",
    "WarpPerspective",
    "has_custom_nodes",
    "infer_shapes",
    "infer_shapes_anew",
    "is_custom",
    "op_of",
    "op_with",
    "register_schemas",
    "run_node",
    "trust_source",
]
