"""WarpPerspective in C against its definition in numpy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from segment_networks import uniform

from nnkit.custom_ops import WarpPerspective

Check = Callable[..., None]


def test_warp(agrees: Check) -> None:
    matrices = {
        "rotation": [[0.9, -0.3, 4.0], [0.3, 0.9, -2.0], [0, 0, 1]],
        "perspective": [[0.8, 0.1, 3.0], [-0.2, 1.1, 2.0], [0.004, -0.003, 1]],
        "horizon": [[1, 0, 0], [0, 1, 0], [0.1, 0.05, -1]],
        "singular": [[1, 2, 0], [2, 4, 0], [0, 0, 1]],
        "endless": [[1e30, 0, 1e30], [0, 1e30, 1e30], [0, 0, 1e-30]],
    }
    inputs = {"x": uniform(1, 2, 12, 15)} | {n: np.array([m], np.float32) for n, m in matrices.items()}
    nodes = []
    for name, direction, sampling, border in product(
        matrices, ("forward", "inverse"), ("nearest", "bilinear"), ("constant", "replicate")
    ):
        op = WarpPerspective(direction, sampling, border, border_value=0.25, out_h=10, out_w=9)
        nodes.append(op.node(["x", name], [f"{name}_{direction}_{sampling}_{border}"]))
    nodes.append(WarpPerspective().node(["x", "eight"], ["eight_values"]))
    inputs["eight"] = inputs["perspective"].reshape(1, 9)[:, :8].copy()
    agrees(nodes, inputs)
