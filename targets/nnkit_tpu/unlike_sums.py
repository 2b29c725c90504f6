"""Sums of two values of which one has a far larger range: the compiler adds them up in floating point."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.compiler_thresholds import Threshold
from nnkit_tpu.program import TpuBinary, TpuGraph, TpuMatMul

MOST_UNLIKE = 64  # how often the larger threshold of a sum in INT8 may hold the smaller one


def adds_unlike_ranges(op: TpuBinary, chosen: Mapping[str, Threshold]) -> bool:
    """Whether the op is a sum of two values, one of which has a far larger threshold than the other."""
    if op.function != "add" or op.constant is not None:
        return False
    values = [chosen[name].value for name in op.inputs]
    return max(values) > MOST_UNLIKE * min(values)


def meets_an_unlike_sum(op: TpuMatMul, graph: TpuGraph, chip: str, chosen: Mapping[str, Threshold]) -> bool:
    """Whether such a sum alone reads the product, as of a small branch beside a residual path (MobileViT).

    In INT8 the BM chips' compiler would give it 16 bits.
    """
    readers = graph.consumers(op.output) if chip not in CV_CHIPS else ()
    return len(readers) == 1 and isinstance(readers[0], TpuBinary) and adds_unlike_ranges(readers[0], chosen)
