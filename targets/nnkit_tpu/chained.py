"""Layers one after another in the place of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nnkit_tpu.program import TpuMatMul, TpuOp

Made = tuple[TpuOp, tuple[int, ...]]
"""A layer, and the shape of its output."""

Step = tuple[str, type[TpuOp], Mapping[str, Any], tuple[int, ...]]
"""Part of a name, kind, what the kind alone has, and the shape of the output."""


def chained(op: TpuOp, steps: Sequence[Step]) -> list[Made]:
    """Layers that together compute what `op` does; one without a name of its own has that of `op`.

    In front of a product with constants they have the range of what `op` reads, from there on that of its result.
    """
    made: list[Made] = []
    known = op.inputs[0]
    for index, (part, kind, own, shape) in enumerate(steps):
        if kind is TpuMatMul:
            known = op.range_of or op.output
        name = f"{op.output}_{part}" if part else op.output
        common: dict[str, Any] = {
            "name": name if part else op.name,
            "inputs": (made[-1][0].output,) if index else op.inputs,
            "output": name,
            "tags": op.tags,
            "origins": op.origins,
            "range_of": known if part else op.range_of,
        }
        made.append((kind(**common, **own), shape))
    return made
