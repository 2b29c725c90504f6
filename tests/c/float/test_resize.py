"""Resize of height and width in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_resize(agrees: Check) -> None:
    nodes, constants = [], {"up": np.array([1, 1, 2, 3], np.float32), "odd": np.array([1, 1, 0.6, 1.7], np.float32)}
    constants["size"] = np.array([1, 2, 9, 4])
    for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        for scales in ("up", "odd", "size"):
            source = ["x", "", "", "size"] if scales == "size" else ["x", "", scales]
            common = {"coordinate_transformation_mode": mode}
            nodes.append(node("Resize", source, [f"linear_{mode}_{scales}"], mode="linear", **common))
            nodes += [
                node("Resize", source, [f"{near}_{mode}_{scales}"], mode="nearest", nearest_mode=near, **common)
                for near in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
            ]
    # coordinates are rounded in another order: a weight may be 1e-6 off
    agrees(nodes, {"x": normal(1, 2, 5, 6)}, constants, atol=1e-5)


def test_filters(agrees: Check) -> None:
    """Cubic, of two coefficients, and antialiased ones, larger and smaller; two channels and images of two shapes."""
    nodes, constants = [], {"up": np.array([1, 1, 2, 3], np.float32), "odd": np.array([1, 1, 0.6, 1.7], np.float32)}
    for scales in ("up", "odd"):
        for mode in ("half_pixel", "align_corners", "asymmetric"):
            common = {"coordinate_transformation_mode": mode, "mode": "cubic"}
            nodes.append(node("Resize", ["x", "", scales], [f"cubic_{mode}_{scales}"], **common))
        cubic = {"mode": "cubic", "cubic_coeff_a": -0.5}
        nodes.append(node("Resize", ["x", "", scales], [f"inside_{scales}"], exclude_outside=1, **cubic))
        nodes.append(node("Resize", ["x", "", scales], [f"smooth_cubic_{scales}"], antialias=1, **cubic))
        nodes.append(node("Resize", ["x", "", scales], [f"smooth_{scales}"], antialias=1, mode="linear"))
    agrees(nodes, {"x": normal(1, 2, 8, 6)}, constants, atol=1e-5)
