"""Rows of a table by their numbers, in C against the table, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from segment_networks import normal

from nnkit.custom_ops import Embedding

Check = Callable[..., None]


def test_embedding_is_exact(agrees: Check) -> None:
    ids = np.array([[0, 3, 3, 8, 11, -2, 900, 1.9]], np.float32)
    agrees([Embedding().node(["ids", "table"], ["y"])], {"ids": ids}, {"table": normal(12, 5)}, rtol=0, atol=0)
    table = normal(12, 5)
    assert np.array_equal(Embedding().run(ids, table)[0][0], table[[0, 3, 3, 8, 11, 0, 11, 1]])
