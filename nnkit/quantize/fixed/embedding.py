"""Rows of a constant table by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.errors import ModelError
from nnkit.program import Embedding, Tensor
from nnkit.quantize.fixed.format_table import Range
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.float_program import FloatEmbedding
from nnkit.quantize.scheme import FixedPointScheme


class EmbeddingLowering(Lowering[FloatEmbedding]):
    """The output's range is the table's, whatever calibration saw of it."""

    def has_own_range(self, op: FloatEmbedding) -> bool:
        return False

    def output_range(self, op: FloatEmbedding, sources: Sequence[Range], calibrated: Range) -> Range:
        low, high = float(op.table.min()), float(op.table.max())
        return Range(low, high, low >= 0.0)

    def build(self, op: FloatEmbedding, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Embedding:
        source, output = tensors[op.inputs[0]].fixed, tensors[op.output]
        rows = len(op.table)
        if source.frac != 0 or rows - 1 > source.qmax:
            raise ModelError(
                f"the numbers of its {rows:,} rows come in {source}, which does not hold them as they are",
                where=op.name,
                remedy="give the numbers as an input of the network, to tables of at most 32,768 rows",
            )
        table = output.fixed.quantize(op.table).clip(output.low, output.high)
        return Embedding(**common_fields(op), table=table, table_bits=output.fixed.bits)
