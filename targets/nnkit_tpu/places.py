"""Who reads a value, and what ops and values take over from those that they stand in for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nnkit.calibrate.stats import ValueRange
from nnkit_tpu.program import TpuGraph, TpuOp


def in_place_of(op: TpuOp) -> dict[str, Any]:
    """Name, inputs, output, tags, origins and range of an op, for another kind of op that computes the same."""
    names = ("name", "inputs", "output", "tags", "origins", "range_of")
    return {name: getattr(op, name) for name in names}


def readers_of(ops: Iterable[TpuOp]) -> Mapping[str, Sequence[TpuOp]]:
    """By value, the ops that read it, in order; one that reads it twice twice."""
    readers: dict[str, list[TpuOp]] = {}
    for op in ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op)
    return readers


def known_as(name: str, like: str, ranges: dict[str, ValueRange] | None, modes: dict[str, str]) -> None:
    """Give a new value the range and the precision of another, where that has them."""
    if ranges is not None and like in ranges:
        ranges[name] = ranges[like]
    if like in modes:
        modes[name] = modes[like]


def range_known_as(graph: TpuGraph, name: str) -> str:
    """The value whose calibrated range a value has: its own, or that of what its op stands in for."""
    made = graph.producer(name)
    return made.range_of or made.output if made is not None else name
