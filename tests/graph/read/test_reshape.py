"""Reshape: shapes on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
from one_node import one_node

from nnkit.graph.read.reshape import read_reshape


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_reshape() -> None:
    case = one_node("Flatten", (2, 3, 4))
    reshape = read_reshape(case.view, case.node)
    assert (reshape.data, reshape.before, reshape.after) == ("x", (2, 3, 4), (2, 12))
