"""Ops that the compiler does not keep apart from others: those that nothing reads, and equal ones on the same values.

Of several equal ops without weights (reshapes, slices, activations ...) the compiler keeps the first, whose name it
gives to all. Reshapes that end in the shape they began with it leaves out.
Merged here, the program has the ops that the compiled model has. An op with the tag `_cpu` stays, and
of several that are outputs of the network each does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from nnkit.graph.view import Shape
from nnkit_tpu.program import TpuOp, TpuPermute, TpuReshape

_OWN = ("name", "output", "tags", "origins")


def needed(ops: Sequence[TpuOp], outputs: Sequence[str]) -> tuple[TpuOp, ...]:
    """Without ops that nothing reads, as a part of a Split."""
    read, kept = set(outputs), list[TpuOp]()
    for op in reversed(ops):
        if op.output in read:
            read |= set(op.inputs)
            kept.append(op)
    return tuple(reversed(kept))


def merged(ops: Sequence[TpuOp], outputs: Sequence[str], shape: Callable[[str], Shape]) -> tuple[TpuOp, ...]:
    """Equal ops on the same values as one. shape: of a value."""
    first: dict[Any, str] = {}  # by what an op computes: the value that has it
    kept: dict[str, TpuOp] = {}  # by that value, in order
    same: dict[str, str] = {}
    for each in ops:
        op = replace(each, inputs=tuple(same.get(name, name) for name in each.inputs))
        key = _key(op, shape(op.output))
        other = None if key is None or "cpu" in op.tags else kept.get(first.setdefault(key, op.output))
        if other is None or (op.output in outputs and other.output in outputs):
            kept[op.output] = op
            continue
        known = other.output
        same[op.output] = known
        if op.output in outputs:  # the one that stays gets the name of the output
            other = replace(other, name=op.name, output=op.output)
        tags, origins = (tuple(dict.fromkeys(both)) for both in (other.tags + op.tags, other.origins + op.origins))
        kept[known] = replace(other, tags=tags, origins=origins)
    names = {value: op.output for value, op in kept.items()}
    return tuple(_renamed(op, names) for op in kept.values())


def without_idle_reshapes(
    ops: Sequence[TpuOp], inputs: Sequence[str], outputs: Sequence[str], shape: Callable[[str], Shape]
) -> tuple[TpuOp, ...]:
    """Without reshapes, and transpositions of axes of 1, that end in the shape of the value that they began with."""
    kept: list[TpuOp] = []
    same: dict[str, str] = {}
    roots: dict[str, str] = {}  # of a reshaped value: what was reshaped
    for each in ops:
        op = _renamed(each, same)
        if not _only_reshapes(op, shape):
            kept.append(op)
            continue
        if shape(op.output) == shape(op.inputs[0]) and op.output not in outputs and "cpu" not in op.tags:
            same[op.output] = op.inputs[0]
            continue
        root = roots.get(op.inputs[0], op.inputs[0])
        roots[op.output] = root
        if isinstance(op, TpuPermute) and op.order[0] != 0:  # of several images the first axis is not of 1
            op = TpuReshape(**{field.name: getattr(op, field.name) for field in fields(TpuReshape)})
        if shape(op.output) != shape(root) or "cpu" in op.tags:
            kept.append(op)
        elif op.output not in outputs:
            same[op.output] = root
        elif root in inputs or root in outputs:
            kept.append(op)
        else:  # the value takes the name of the output
            names = {root: op.output}
            kept = [
                replace(_renamed(other, names), output=op.output, range_of=other.range_of or root)
                if other.output == root
                else _renamed(other, names)
                for other in kept
            ]
            same[root] = op.output
            same = {name: names.get(value, value) for name, value in same.items()}
            roots = {name: names.get(value, value) for name, value in roots.items()}
    return needed(kept, outputs)


def _only_reshapes(op: TpuOp, shape: Callable[[str], Shape]) -> bool:
    if isinstance(op, TpuPermute):
        moved = [axis for axis in op.order if shape(op.inputs[0])[axis] != 1]
        return moved == sorted(moved)
    return isinstance(op, TpuReshape)


def _renamed(op: TpuOp, names: Mapping[str, str]) -> TpuOp:
    return replace(op, inputs=tuple(names.get(name, name) for name in op.inputs))


def _key(op: TpuOp, shape: Shape) -> Any:
    """What the op computes; None for one with weights, which the compiler keeps."""
    values = {field.name: getattr(op, field.name) for field in fields(op) if field.name not in _OWN}
    if any(isinstance(value, np.ndarray) and value.size > 1 for value in values.values()):
        return None
    return type(op), shape, *(value.item() if isinstance(value, np.ndarray) else value for value in values.values())
