"""What a softmax in floating point reads: scores of an attention and what masks them."""

from __future__ import annotations

from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.program import TpuBinary, TpuGraph, TpuMatMul, TpuOp, TpuSoftmax

_RANK = 4


def gives_scores(op: TpuMatMul, graph: TpuGraph, chip: str) -> bool:
    """Whether the product is read by a softmax in floating point alone, or by the sum with what masks it.

    In INT8 the compiler would give it 16 bits, but 8 in a model in which it is an output, as for comparison.
    """
    readers = graph.consumers(op.output)
    if len(readers) == 1 and isinstance(readers[0], TpuBinary):
        return masks_scores(readers[0], graph, chip)
    return len(readers) == 1 and _in_float(readers[0], graph)


def masks_scores(op: TpuBinary, graph: TpuGraph, chip: str) -> bool:
    """Whether the op adds constants to what a softmax in floating point alone reads.

    A mask of -100 in 8 bits leaves steps of 0.8 to the scores. The cv18xx have no case of it that was measured.
    """
    readers = graph.consumers(op.output)
    adds = op.function == "add" and op.constant is not None and op.constant.size > 1
    return adds and chip not in CV_CHIPS and bool(readers) and all(_in_float(reader, graph) for reader in readers)


def has_integers(op: TpuSoftmax, graph: TpuGraph) -> bool:
    """Whether the compiler for the BM chips computes a softmax in INT8: over the channels of an image."""
    return op.axis == 1 and len(graph.tensors[op.output].shape) <= _RANK


def _in_float(op: TpuOp, graph: TpuGraph) -> bool:
    return isinstance(op, TpuSoftmax) and not has_integers(op, graph)
