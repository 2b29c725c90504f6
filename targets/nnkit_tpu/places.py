"""What an op takes over from the one that it stands in for."""

from __future__ import annotations

from typing import Any

from nnkit_tpu.program import TpuOp


def in_place_of(op: TpuOp) -> dict[str, Any]:
    """Name, inputs, output, tags, origins and range of an op, for another kind of op that computes the same."""
    names = ("name", "inputs", "output", "tags", "origins", "range_of")
    return {name: getattr(op, name) for name in names}
