"""Concat: axis and places of the parts."""

from __future__ import annotations

import numpy as np
from one_node import one_node

from nnkit.graph.read.concat import read_concat


def test_concat() -> None:
    part = np.ones((1, 3, 2), np.float32)
    case = one_node("Concat", (1, 4, 2), {"c": part}, axis=-2)
    concat = read_concat(case.view, case.node)
    assert (concat.inputs, concat.axis, concat.sizes, concat.starts) == (("x", "c"), 1, (4, 3), (0, 4))
    np.testing.assert_array_equal(np.concatenate([case.x, part], concat.axis), case.y)
