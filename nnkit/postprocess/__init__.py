"""The CPU side of a deployed face network, before and after it: in numpy and in generated C, bit for bit."""

from __future__ import annotations

from nnkit.postprocess.descriptor_match import DescriptorMatch, Gallery, Match
from nnkit.postprocess.emit import Stage, emit_postprocess, postprocess_files
from nnkit.postprocess.face_crop import Box, FaceCrop, crop_face
from nnkit.postprocess.pca_combine import PcaCombine, combine_halves, combine_stored

__all__ = [
    "Box",
    "DescriptorMatch",
    "FaceCrop",
    "Gallery",
    "Match",
    "PcaCombine",
    "Stage",
    "combine_halves",
    "combine_stored",
    "crop_face",
    "emit_postprocess",
    "postprocess_files",
]
