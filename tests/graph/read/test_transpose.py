"""Transpose: the order, as NumPy takes it, gives what ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.transpose import read_transpose


@pytest.mark.parametrize("perm", [None, [0, 2, 3, 1]])
def test_transpose(perm: list[int] | None) -> None:
    case = one_node("Transpose", (1, 2, 3, 4), **({} if perm is None else {"perm": perm}))
    np.testing.assert_array_equal(case.x.transpose(read_transpose(case.view, case.node).order), case.y)
