"""The CPU side of a deployed network, before and after it, in numpy; `nnkit.c.postprocess` has the same in C."""

from __future__ import annotations

from typing import TypeAlias

from nnkit.postprocess.boxes import Detected
from nnkit.postprocess.descriptor_match import DescriptorMatch, Gallery, Match
from nnkit.postprocess.detections import Detections, detect, prior_integers
from nnkit.postprocess.face_crop import Box, FaceCrop, crop_face
from nnkit.postprocess.numbers import Numbers
from nnkit.postprocess.pca_combine import PcaCombine, combine_halves, combine_stored
from nnkit.postprocess.people import NoGalleryError, OtherNetworkError, People, PeopleStore
from nnkit.postprocess.scores import ArgMax, L2Normalize, Softmax, TopK, argmax, l2_normalize, softmax, topk
from nnkit.postprocess.shrink import Shrink, shrink
from nnkit.postprocess.yolo import Yolo, YoloHead, detect_yolo

Stage: TypeAlias = FaceCrop | DescriptorMatch | PcaCombine | Detections | Yolo | Softmax | ArgMax | TopK | L2Normalize
"""Parameters of a stage."""

__all__ = [
    "ArgMax",
    "Box",
    "DescriptorMatch",
    "Detected",
    "Detections",
    "FaceCrop",
    "Gallery",
    "L2Normalize",
    "Match",
    "NoGalleryError",
    "Numbers",
    "OtherNetworkError",
    "PcaCombine",
    "People",
    "PeopleStore",
    "Shrink",
    "Softmax",
    "Stage",
    "TopK",
    "Yolo",
    "YoloHead",
    "argmax",
    "combine_halves",
    "combine_stored",
    "crop_face",
    "detect",
    "detect_yolo",
    "l2_normalize",
    "prior_integers",
    "shrink",
    "softmax",
    "topk",
]
