"""Windows of an image in the place of images, as the compiler is to read them.

Attention within windows works on [1, P, heads, rows, features], as a program has one image in front. The compiler
makes one layer of a product and the transpositions of heads around it on values of four axes alone: it gets
[P, heads, rows, features], the windows of one image behind those of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from nnkit.graph.view import Shape
from nnkit_tpu.program import (
    FloatArray,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuGraph,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuReduce,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
)

_HEADS = 5  # axes: images, windows, heads, rows and features
_LEAST = 4  # without heads


def windows_in_front(graph: TpuGraph) -> TpuGraph:
    """The graph with the first two axes as one where products of heads, and all that is beside them, allow it."""
    images = next(iter(graph.tensors.values())).shape[0]
    within = {name for values in _regions(graph) for name in values}
    if not within:
        return graph
    tensors = {
        name: replace(each, shape=_joined(each.shape)) if name in within else each
        for name, each in graph.tensors.items()
    }
    ops = tuple(_one_axis_less(op, images) if op.output in within else op for op in graph.ops)
    return replace(graph, tensors=tensors, ops=ops)


def _joined(shape: Shape) -> Shape:
    return (shape[0] * shape[1], *shape[2:])


def _regions(graph: TpuGraph) -> Iterable[set[str]]:
    """Values that can only get another shape together: those with a product of heads, and those that are reshaped to
    or from such along other axes than the first two."""
    root = {name: name for name in graph.tensors}

    def root_of(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    read = {name for op in graph.ops for name in op.inputs}
    fixed = {*graph.inputs, *(name for name in graph.tensors if name not in read)}
    heads, reshapes = set[str](), list[tuple[str, str]]()
    for op in graph.ops:
        values = (*op.inputs, op.output)
        shapes = [graph.tensors[name].shape for name in values]
        if isinstance(op, TpuReshape):
            if min(map(len, shapes)) >= _LEAST and shapes[0][:2] == shapes[1][:2]:
                reshapes.append((op.inputs[0], op.output))
            continue
        if not _can_be_joined(op, shapes):
            fixed |= set(values)
        if isinstance(op, TpuMatMul) and op.weight is None and len(shapes[0]) == _HEADS:
            heads.add(op.output)
        for name in values:
            root[root_of(name)] = root_of(op.output)
    stay = {root_of(name) for name in fixed}
    taken = {root_of(name) for name in heads} - stay
    grown = True
    while grown:
        beside = {root_of(b) for pair in reshapes for a, b in (pair, pair[::-1]) if root_of(a) in taken} - stay
        grown = not beside <= taken
        taken |= beside
    regions: dict[str, set[str]] = {}
    for name in graph.tensors:
        if root_of(name) in taken:
            regions.setdefault(root_of(name), set()).add(name)
    return regions.values()


def _can_be_joined(op: TpuOp, shapes: list[Shape]) -> bool:
    """Whether the op computes the same where the first two axes are one. shapes: of its inputs and its output."""
    if any(len(shape) < _LEAST or shape[:2] != shapes[0][:2] for shape in shapes):
        return False
    match op:
        case TpuPermute():
            return op.order[:2] == (0, 1)
        case TpuSlice():
            return (op.offsets[1], op.steps[1], op.ends[1]) == (0, 1, shapes[0][1])
        case TpuConcat() | TpuSoftmax() | TpuLayerNorm():
            return op.axis > 1
        case TpuReduce():
            return min(op.axes) > 1
        case TpuPad():
            return not any(op.pads[axis] for axis in (0, 1, len(shapes[0]), len(shapes[0]) + 1))
        case TpuMatMul() | TpuBinary():
            return True
        case TpuActivation():
            return op.function != "prelu"
        case _:
            return False


def _one_axis_less(op: TpuOp, images: int) -> TpuOp:
    match op:
        case TpuPermute():
            return replace(op, order=(0, *(axis - 1 for axis in op.order[2:])))
        case TpuSlice():
            ends = (images * op.ends[1], *op.ends[2:])
            return replace(op, offsets=(0, *op.offsets[2:]), steps=(1, *op.steps[2:]), ends=ends)
        case TpuConcat() | TpuSoftmax() | TpuLayerNorm():
            return replace(op, axis=op.axis - 1)
        case TpuReduce():
            return replace(op, axes=tuple(axis - 1 for axis in op.axes))
        case TpuPad():
            half = len(op.pads) // 2
            return replace(op, pads=(0, *op.pads[2:half], 0, *op.pads[half + 2 :]))
        case TpuBinary() if op.constant is not None and op.constant.size > 1:
            return replace(op, constant=_of_windows(op.constant, images))
        case _:
            return op


def _of_windows(constant: FloatArray, images: int) -> FloatArray:
    """A constant [1, P or 1, ...] for the windows of all images behind one another."""
    within = constant.reshape(constant.shape[1:])
    return np.tile(within, (images, *(1,) * (within.ndim - 1))) if len(within) > 1 else within
