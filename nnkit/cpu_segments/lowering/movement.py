"""Operators that move values: reshapes without code, copies with steps for the rest."""

from __future__ import annotations

import numpy as np

from nnkit.cpu_segments.calls import Call, Lowered, Read, RefusedError, Table, View, Write, copy, number, strides
from nnkit.cpu_segments.graph import Layer

VIEW_OPS = ("Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


def view(layer: Layer) -> Lowered:
    if len([name for name in layer.node.output if name]) > 1:
        raise RefusedError("has a mask as second output")
    return View(layer.input(0))


def transpose(layer: Layer) -> Lowered:
    shape = layer.shape(0)
    order = layer.attribute("perm", list(reversed(range(len(shape)))))
    steps = strides(shape)
    sizes = [shape[axis] for axis in order]
    return [copy(Read(layer.input(0)), Write(layer.output), sizes, [steps[axis] for axis in order], strides(sizes))]


def expand(layer: Layer) -> Lowered:
    target = layer.out_shape
    shape = [1] * (len(target) - len(layer.shape(0))) + list(layer.shape(0))
    steps = [0 if size == 1 else step for size, step in zip(shape, strides(shape), strict=True)]
    return [copy(Read(layer.input(0)), Write(layer.output), target, steps, strides(target))]


def slice_(layer: Layer) -> Lowered:
    shape = layer.shape(0)
    starts, ends = layer.ints(1, "starts"), layer.ints(2, "ends")
    if starts is None or ends is None:
        raise RefusedError("needs starts and ends")
    axes = layer.ints(3, "axes") or list(range(len(starts)))
    steps = layer.ints(4, "steps") or [1] * len(starts)
    offset, walk = 0, strides(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # Python's own rules for negative and far bounds are those of ONNX.
        first, _, step = slice(start, None if step < 0 and end < -shape[axis] else end, step).indices(shape[axis])
        offset += first * strides(shape)[axis]
        walk[axis] *= step
    return [copy(Read(layer.input(0), offset), Write(layer.output), layer.out_shape, walk, strides(layer.out_shape))]


def split(layer: Layer) -> Lowered:
    axis, steps = layer.axis(0), strides(layer.shape(0))
    calls, start = [], 0
    for name in layer.node.output:
        sizes = layer.shape_of(name)
        source = Read(layer.input(0), start * steps[axis])
        calls.append(copy(source, Write(name), sizes, steps, strides(sizes)))
        start += sizes[axis]
    return calls


def concat(layer: Layer) -> Lowered:
    axis = layer.axis(0)
    steps = strides(layer.out_shape)
    calls, start = [], 0
    for index in range(len(layer.node.input)):
        sizes = layer.shape(index)
        target = Write(layer.output, start * steps[axis])
        calls.append(copy(Read(layer.input(index)), target, sizes, strides(sizes), steps))
        start += sizes[axis]
    return calls


def pad(layer: Layer) -> Lowered:
    shape, target = layer.shape(0), layer.out_shape
    amounts = layer.ints(1, "pads")
    if amounts is None:
        raise RefusedError("needs pads")
    axes = layer.ints(3, "axes") or list(range(len(shape)))
    before, after = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(axes):
        before[axis], after[axis] = amounts[place], amounts[place + len(axes)]
    if min(before + after) < 0:
        raise RefusedError("has negative pads")
    mode = layer.attribute("mode", "constant")
    if mode == "constant":
        value = float(layer.constant(2, "its value")) if layer.has(2) else 0.0
        steps = strides(target)
        offset = sum(count * step for count, step in zip(before, steps, strict=True))
        fill = Call("copy", "nnkit_fill", (Write(layer.output), str(int(np.prod(target))), number(value)))
        return [fill, copy(Read(layer.input(0)), Write(layer.output, offset), shape, strides(shape), steps)]
    if mode not in ("edge", "reflect") or len(shape) < 2 or any(before[:-2]) or any(after[:-2]):
        raise RefusedError(f"pads with mode '{mode}' beyond height and width")
    tables = [
        Table(np.pad(np.arange(shape[axis], dtype=np.int32), (before[axis], after[axis]), mode=mode))
        for axis in (-2, -1)
    ]
    sizes = (int(np.prod(shape[:-2])), *shape[-2:], *target[-2:])
    return [Call("sample", "nnkit_sample", (Read(layer.input(0)), Write(layer.output), *map(str, sizes), *tables))]
