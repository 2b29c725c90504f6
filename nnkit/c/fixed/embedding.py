"""Rows of a table by their numbers; the table is streamed as weights are, some rows a block."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.fixed.layer import Call, Constant
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Function, OperatorC
from nnkit.c.fixed.rows import RowsFunction
from nnkit.c.fixed.types import ctype
from nnkit.memory.needs import KernelNeeds
from nnkit.program import Embedding, Program

_BLOCK_BYTES = 1024
"""About what a block holds."""


class EmbeddingC(OperatorC[Embedding]):
    """`struct nnkit_embedding`. A call copies the rows that lie in the blocks it has."""

    def functions(self, op: Embedding, program: Program) -> tuple[Function, ...]:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return (RowsFunction("embedding", x, y),)

    def calls(self, op: Embedding, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        rows, features = op.table.shape
        constant = Constant(
            "struct nnkit_embedding",
            name,
            (
                (f"{prod(program.tensors[op.inputs[0]].shape)}", "numbers"),
                (f"{rows}, {features}", "rows of the table, elements of a row"),
                (f"{_rows_of_block(op)}", "rows of a block"),
            ),
        )
        return (Call(self.functions(op, program)[0].name, name, (0,), (constant,)),)

    def needs(self, op: Embedding, program: Program, machine: CoreMachine) -> KernelNeeds:
        """The table in blocks."""
        return KernelNeeds(weight_block_bytes=tuple(map(len, self.weight_blocks(op))))

    def weight_blocks(self, op: Embedding) -> list[bytes]:
        """Rows in order, little endian; the last block is filled up with zeros."""
        rows, features = op.table.shape
        height = _rows_of_block(op)
        padded = np.zeros((-(-rows // height) * height, features), np.int64)
        padded[:rows] = op.table
        stored = padded.astype("<i2" if op.table_bits == 16 else "i1")
        return [stored[first : first + height].tobytes() for first in range(0, len(stored), height)]


def _rows_of_block(op: Embedding) -> int:
    """A multiple of four: blocks are then multiples of four bytes."""
    row_bytes = int(op.table.shape[1]) * op.table_bits // 8
    return 4 * max(1, _BLOCK_BYTES // (4 * row_bytes))
