"""Normalize in C against its definition in numpy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from segment_networks import uniform

from nnkit.custom_ops import Normalize

Check = Callable[..., None]


def test_normalize(agrees: Check) -> None:
    nodes = [
        Normalize(across, shared).node(["x", "one" if shared else "many"], [f"n{across}{shared}"])
        for across, shared in product((False, True), repeat=2)
    ]
    nodes.append(Normalize().node(["x"], ["no_scale"]))
    agrees(nodes, {"x": uniform(1, 7, 5, 6)}, {"one": np.array([20.0], np.float32), "many": uniform(7)}, rtol=4e-6)
