"""Transposed convolutions in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_conv_transpose(agrees: Check) -> None:
    nodes = [
        node("ConvTranspose", ["x", "w", "b"], ["plain"]),
        node("ConvTranspose", ["x", "w", "b"], ["stride"], strides=[2, 3], pads=[1, 0, 1, 2]),
        node("ConvTranspose", ["x", "w"], ["more"], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]),
        node("ConvTranspose", ["x", "w"], ["dilated"], dilations=[2, 1]),
        node("ConvTranspose", ["x", "wg"], ["grouped"], group=2, strides=[2, 2]),
    ]
    constants = {"w": normal(4, 3, 3, 2), "wg": normal(4, 3, 2, 2), "b": normal(3, seed=4)}
    agrees(nodes, {"x": normal(1, 4, 5, 4)}, constants, atol=4e-6)


def test_pads_that_follow_from_the_output(agrees: Check) -> None:
    nodes = [
        node("ConvTranspose", ["x", "w"], [auto.lower()], auto_pad=auto, strides=[2, 2])
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
    ]
    nodes.append(node("ConvTranspose", ["x", "w"], ["shaped"], output_shape=[10, 8], strides=[2, 2]))
    agrees(nodes, {"x": normal(1, 4, 5, 4)}, {"w": normal(4, 3, 3, 3)}, atol=4e-6)


def test_one_dimension(agrees: Check) -> None:
    nodes = [
        node("ConvTranspose", ["x", "w", "b"], ["plain"]),
        node("ConvTranspose", ["x", "w"], ["stride"], strides=[3], pads=[1, 2], output_padding=[1]),
    ]
    agrees(nodes, {"x": normal(1, 4, 7)}, {"w": normal(4, 3, 3), "b": normal(3, seed=4)}, atol=4e-6)
