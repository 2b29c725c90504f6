"""Embedding: the rows of a table by their numbers, which are whole numbers in float32.

Row k of the output is row i of the table, i the k-th number without its fraction, kept within the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape


@dataclass(frozen=True)
class Embedding(CustomOp):
    """Inputs ids [...] and table [rows, features]; output [..., features]."""

    op_type: ClassVar[str] = "Embedding"
    inputs: ClassVar[tuple[str, ...]] = ("ids", "table")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        ids, table = input_shapes
        self.require(len(table) == 2 and table[0] > 0, f"needs a table [rows, features], not {list(table)}")
        return ((*ids, table[1]),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        ids, table = (np.asarray(array, np.float32) for array in arrays)
        kept = np.clip(np.nan_to_num(ids, nan=0.0), 0, len(table) - 1)
        return (np.ascontiguousarray(table[kept.astype(np.int64)]),)
