"""The CPU side of a deployed face network, before and after it, in numpy; `nnkit.c.postprocess` has the same in C."""

from __future__ import annotations

from typing import TypeAlias

from nnkit.postprocess.descriptor_match import DescriptorMatch, Gallery, Match
from nnkit.postprocess.face_crop import Box, FaceCrop, crop_face
from nnkit.postprocess.pca_combine import PcaCombine, combine_halves, combine_stored

Stage: TypeAlias = FaceCrop | DescriptorMatch | PcaCombine
"""Parameters of a stage."""

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
]
