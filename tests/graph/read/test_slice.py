"""Slice and Split: what was read, done by NumPy, gives what ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.slice import read_slice, read_split
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("constants", "opset", "attributes"),
    [
        ({"starts": _ints(1, 0), "ends": _ints(3, 9), "axes": _ints(2, -1)}, 17, {}),
        ({"starts": _ints(0, 0, -3), "ends": _ints(1, 2, -1)}, 17, {}),
        ({"starts": _ints(-1), "ends": _ints(-100), "axes": _ints(3), "steps": _ints(-2)}, 17, {}),
        ({"starts": _ints(4), "ends": _ints(0), "axes": _ints(3), "steps": _ints(-1)}, 17, {}),
        ({"starts": _ints(0), "ends": _ints(2**62), "axes": _ints(3), "steps": _ints(3)}, 17, {}),
        ({}, 9, {"starts": [1], "ends": [3], "axes": [2]}),
    ],
)
def test_slice(constants: dict[str, Any], opset: int, attributes: dict[str, Any]) -> None:
    case = one_node("Slice", (1, 2, 4, 6), constants, opset=opset, **attributes)
    cut = read_slice(case.view, case.node)
    taken = [list(range(*axis)) for axis in zip(cut.starts, cut.ends, cut.steps, strict=True)]
    np.testing.assert_array_equal(case.x[np.ix_(*taken)], case.y)


def test_slice_of_an_axis_that_is_not_there() -> None:
    constants = {"s": _ints(0), "e": _ints(1), "a": _ints(2)}
    view = view_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, constants)
    node = Node.of(helper.make_node("Slice", ["x", "s", "e", "a"], ["z"]))
    with pytest.raises(Refused, match="it has an axis 2 of 2 dimensions"):
        read_slice(view, node)


def test_split() -> None:
    node = helper.make_node("Split", ["x", "sizes"], ["y", "z"], axis=-1)
    view = view_of([node], {"x": (1, 2, 5)}, {"sizes": _ints(2, 3)}, ("y", "z"))
    split = read_split(view, view.nodes[0])
    assert (split.data, split.axis, split.sizes, split.starts) == ("x", 2, (2, 3), (0, 2))
