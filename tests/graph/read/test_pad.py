"""Pad: what was read, done by NumPy, gives what ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.pad import read_pad
from nnkit.graph.refusal import Refused


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("constants", "opset", "attributes"),
    [
        ({"pads": _ints(0, 0, 1, 2, 0, 0, 3, 0)}, 17, {}),
        ({"pads": _ints(0, 1, 1, 0, 0, 0, 0, 2), "value": np.float32(-1.5)}, 17, {}),
        ({"pads": _ints(1, 2, 0, 1), "value": np.float32(2), "axes": _ints(-1, 2)}, 18, {}),
        ({"pads": _ints(0, 0, 1, 2, 0, 0, 1, 1)}, 17, {"mode": "edge"}),
        ({"pads": _ints(0, 0, 1, 2, 0, 0, 1, 1)}, 17, {"mode": "reflect"}),
        ({}, 10, {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": 0.5}),
    ],
)
def test_pad(constants: dict[str, Any], opset: int, attributes: dict[str, Any]) -> None:
    case = one_node("Pad", (1, 2, 4, 5), constants, opset=opset, **attributes)
    pad = read_pad(case.view, case.node)
    widths = list(zip(pad.before, pad.after, strict=True))
    if pad.mode == "constant":
        padded = np.pad(case.x, widths, constant_values=pad.value)
    else:
        padded = np.pad(case.x, widths, mode=pad.mode)  # type: ignore[call-overload]
    np.testing.assert_array_equal(padded, case.y)
    assert pad.pads_hw_only == (not any((*widths[0], *widths[1])))


def test_computed_pads_are_refused() -> None:
    nodes = [helper.make_node("Cast", ["p"], ["pads"], to=7), helper.make_node("Pad", ["x", "pads"], ["y"])]
    view = view_of(nodes, {"x": (1, 2), "p": (4,)})
    with pytest.raises(Refused, match="its pads are not constant"):
        read_pad(view, view.nodes[1])
