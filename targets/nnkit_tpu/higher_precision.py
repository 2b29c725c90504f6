"""Layers of an INT8 network in F16 (BF16 on the cv18xx), and the corrections of that kind that a recipe gets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nnkit.target import Quantization
from nnkit_tpu.program import TpuGraph


def in_higher_precision(graph: TpuGraph, values: Collection[str]) -> TpuGraph:
    """The graph with the layers that make these values tagged; without any, the graph itself."""
    if not values:
        return graph
    ops = tuple(
        replace(op, tags=(*op.tags, "hp")) if op.output in values and "hp" not in op.tags else op for op in graph.ops
    )
    return replace(graph, ops=ops)


def gets(correction: str, quantization: Quantization) -> bool:
    """Whether the recipe asks for it; one that leaves method and corrections to us does."""
    asked = quantization.calibration.corrections
    return bool(quantization.statistics.trials) if asked is None else correction in asked
