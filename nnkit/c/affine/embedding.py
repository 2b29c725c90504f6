"""Rows of a table by their numbers."""

from __future__ import annotations

from nnkit.c.affine.call import Call, Kernel, Table, suffix
from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffineEmbedding, AffineTensor


def embedding_call(op: AffineEmbedding, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call. Raises Refused where a row does not lie as the result has it."""
    if len(output.shape) == 3:
        raise Refused("it embeds numbers of two dimensions")
    rows, features = op.table.shape
    return Call(
        Kernel("embedding", "embedding", (("x", suffix(source)), ("y", suffix(output)))),
        {"count": source.elements, "features": features, "last": rows - 1},
        op.inputs,
        op.output,
        {"table": Table("bytes" if output.format.bits == 8 else "shorts", op.table.reshape(-1))},
    )
