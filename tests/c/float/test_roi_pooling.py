"""ROIPooling in C against its definition in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from segment_networks import uniform

from nnkit.custom_ops import ROIPooling

Check = Callable[..., None]


ROIS = np.array([[0, 0, 0, 15, 15], [0, 3.4, 2.6, 9.5, 13.2], [-1, 0, 0, 0, 0], [0, 20, 4, 40, 50]], np.float32)
ROIS = np.concatenate([ROIS, [[0, 8, 8, 8, 8], [0, 11, 12, 30, 20], [0, -9, -7, 3, 30], [0, 9, 9, 2, 2]]])


def test_roi_pooling(agrees: Check) -> None:
    pooling = ROIPooling(3, 4, 0.5).node(["x", "rois"], ["roi"])
    agrees([pooling], {"x": uniform(1, 18, 12, 14), "rois": ROIS.astype(np.float32)})
