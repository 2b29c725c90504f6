"""Layers of an INT8 network in F16 (BF16 on the cv18xx), and the corrections of that kind that a recipe gets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nnkit.target import Quantization
from nnkit_tpu.program import TpuGraph, TpuOp


def in_higher_precision(graph: TpuGraph, values: Collection[str]) -> TpuGraph:
    """The graph with the layers that make these values tagged; without any, the graph itself."""
    if not values:
        return graph
    return replace(graph, ops=tuple(tagged(op) if op.output in values else op for op in graph.ops))


def tagged(op: TpuOp) -> TpuOp:
    """The layer with the tag for it."""
    return op if "hp" in op.tags else replace(op, tags=(*op.tags, "hp"))


def gets(correction: str, quantization: Quantization) -> bool:
    """Whether the recipe asks for it; one that leaves method and corrections to us does."""
    asked = quantization.calibration.corrections
    return bool(quantization.statistics.trials) if asked is None else correction in asked
