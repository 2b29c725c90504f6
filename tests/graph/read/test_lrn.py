"""LRN by its formula, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.lrn import read_lrn
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node


@pytest.mark.parametrize("attributes", [{"size": 3}, {"size": 5, "alpha": 0.5, "beta": 0.6, "bias": 2.0}])
def test_the_reading_computes_what_onnx_runtime_does(attributes: dict[str, float]) -> None:
    case = one_node("LRN", (1, 7, 2, 3), **attributes)
    lrn = read_lrn(case.view, case.node)
    half = lrn.size // 2
    squares = np.pad(np.square(case.x), ((0, 0), (half, half), (0, 0), (0, 0)))
    sums = sum(squares[:, start : start + 7] for start in range(lrn.size))
    np.testing.assert_allclose(case.x / (lrn.bias + lrn.alpha / lrn.size * sums) ** lrn.beta, case.y, rtol=1e-5)


def test_no_size_is_refused() -> None:
    case = one_node("LRN", (1, 3, 2, 2), size=1)
    with pytest.raises(Refused, match="its size is 0"):
        read_lrn(case.view, Node(**{**vars(case.node), "attributes": {}}))
