"""Strides and dilations above 15, for which the BM chips have four bits, legalised.

* In INT8 the compiler has no code for a maximum pool with such a stride. An average with windows longer than 15 along
  that axis, too, it adds up from parts that are rounded to 8 bits: 10 % too small for windows of 17, next to nothing
  for windows of 31. Windows are taken at a stride that divides the pool's, and of these every so many-th is kept.
  Where the stride is no product of two numbers up to 15, as 17, the layer runs in floating point. The cv18xx have
  five bits for strides of pools in INT8, beyond which they give other values, and the compiler has no code for
  strides above 15 in BF16: there the windows are kept so, too, whatever the stride.
* A convolution with such a dilation ends the compiler, or reads other pixels where one axis alone is dilated so. It
  becomes a 1x1 convolution of what its taps read, side by side as channels; one in groups gets a shorter dilation and
  zeros between its weights.
* A transposed convolution with such a stride, or one of every channel by itself with one above 8, mostly ends the
  compiler and otherwise takes many times as long. It becomes a convolution that gives the values from one pixel to
  the next as channels, which are spread then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnkit.program import Window
from nnkit_tpu.chained import Made
from nnkit_tpu.program import (
    Mode,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReshape,
    TpuSlice,
    TpuTensor,
)

LONGEST_STEP = 15
"""The longest stride of pools, and the longest dilation of convolutions, that the BM chips have."""


_LONGEST_DEPTHWISE_STRIDE = 8
_SPREAD = (0, 1, 4, 2, 5, 3)  # of [N, C, rows and columns within a cell, rows and columns of cells]


def with_short_steps(graph: TpuGraph, mode: Mode) -> TpuGraph:
    """The float graph without such pools and convolutions; mode: of the whole network."""
    tensors, ops, same = dict(graph.tensors), list[TpuOp](), True
    for op in graph.ops:
        shapes = graph.tensors[op.inputs[0]].shape, graph.tensors[op.output].shape
        made: list[Made] = []
        if isinstance(op, TpuPool) and {"hp", "cpu"}.isdisjoint(op.tags) and is_long_pool(op, mode):
            made = _pool(op, *shapes)
        elif isinstance(op, TpuConv) and has_long_dilation(op):
            made = _taps_as_channels(op, *shapes) if op.group == 1 else [(_with_zeros(op), shapes[1])]
        elif isinstance(op, TpuDeconv) and _is_far_spread(op):
            made = _spread_cells(op, *shapes)
        tensors |= {each.output: TpuTensor(each.output, shape) for each, shape in made}
        ops += [each for each, _ in made] or [op]
        same &= not made
    return graph if same else replace(graph, tensors=tensors, ops=tuple(ops))


_LONGEST_CV_STRIDE = {"INT8": 31}  # of INT8; for BF16 the compiler has no code beyond `LONGEST_STEP`


def with_short_pool_steps(graph: TpuGraph, mode: Mode) -> TpuGraph:
    """The float graph for the cv18xx without strides of pools that they do not have; mode: of the whole network."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        made: list[Made] = []
        if isinstance(op, TpuPool):
            longest = _LONGEST_CV_STRIDE.get("BF16" if "hp" in op.tags else mode, LONGEST_STEP)
            if max(op.window.stride_h, op.window.stride_w) > longest:
                shapes = tensors[op.inputs[0]].shape, tensors[op.output].shape
                made = _more_windows(op, *shapes, _cv_strides(op.window, shapes[1], longest))
        tensors |= {each.output: TpuTensor(each.output, shape) for each, shape in made}
        ops += [each for each, _ in made] or [op]
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _cv_strides(w: Window, after: Sequence[int], longest: int) -> tuple[int, int]:
    """For each axis the longest stride that divides the window's; for a single window the longest there is."""
    height, width = (
        longest if windows == 1 else max(each for each in range(1, longest + 1) if stride % each == 0)
        for windows, stride in ((after[2], w.stride_h), (after[3], w.stride_w))
    )
    return height, width


def is_long_pool(op: TpuPool, mode: str) -> bool:
    """Whether the compiler has no code for the pool in this precision, or wrong one."""
    w = op.window
    if op.function == "max":
        long = max(w.stride_h, w.stride_w) > LONGEST_STEP
    else:
        axes = ((w.kernel_h, w.stride_h), (w.kernel_w, w.stride_w))
        long = any(min(axis) > LONGEST_STEP for axis in axes)
    return long and mode == "INT8"


def has_long_dilation(op: TpuConv) -> bool:
    """Whether taps of the convolution are further apart than the chips' instructions can say."""
    w = op.window
    axes = ((w.kernel_h, w.dilation_h), (w.kernel_w, w.dilation_w))
    return any(taps > 1 and apart > LONGEST_STEP for taps, apart in axes)


def _shorter(stride: int) -> int | None:
    """The longest stride of which `stride` is up to 15 times as much; None: there is none."""
    short = (each for each in range(LONGEST_STEP, 0, -1) if stride % each == 0 and stride // each <= LONGEST_STEP)
    return next(short, None)


def _pool(op: TpuPool, before: Sequence[int], after: Sequence[int]) -> list[Made]:
    """A pool of more windows and a slice of its result, or the pool in floating point."""
    w = op.window
    strides = _shorter(w.stride_h), _shorter(w.stride_w)
    if strides[0] is None or strides[1] is None:
        return [(replace(op, tags=(*op.tags, "hp")), tuple(after))]
    return _more_windows(op, before, after, (strides[0], strides[1]))


def _more_windows(op: TpuPool, before: Sequence[int], after: Sequence[int], strides: tuple[int, int]) -> list[Made]:
    """The pool with shorter strides, and a slice of the windows that it has with its own where there are more."""
    w = op.window
    short = replace(w, stride_h=strides[0], stride_w=strides[1])
    taken = (*before[:2], *short.output_hw(before[2], before[3]))
    if taken == tuple(after):
        return [(replace(op, window=short, ceil_mode=False), taken)]
    steps = (1, 1, *(max(1, own // each) for own, each in zip((w.stride_h, w.stride_w), strides, strict=True)))
    name, known = f"{op.output}_windows", op.range_of or op.output
    pool = replace(op, name=f"{op.name}_windows", output=name, window=short, ceil_mode=False, range_of=known)
    ends = tuple((size - 1) * step + 1 for size, step in zip(after, steps, strict=True))
    kept = TpuSlice(**_common(op, (name,)), offsets=(0,) * 4, steps=steps, ends=ends)
    return [(pool, taken), (kept, tuple(after))]


def _taps_as_channels(op: TpuConv, before: Sequence[int], after: Sequence[int]) -> list[Made]:
    """Padding, a slice for every tap, these side by side as channels, and the 1x1 convolution of them."""
    w, source, made = op.window, op.inputs[0], list[Made]()
    images, channels, height, width = before
    if w.has_padding:
        height, width = height + w.pad_top + w.pad_bottom, width + w.pad_left + w.pad_right
        pads = (0, 0, w.pad_top, w.pad_left, 0, 0, w.pad_bottom, w.pad_right)
        made.append((TpuPad(**_part(op, "padded", (source,)), pads=pads), (images, channels, height, width)))
        source = f"{op.output}_padded"
    spans = (after[2] - 1) * w.stride_h + 1, (after[3] - 1) * w.stride_w + 1
    read = (images, channels, *spans)
    for row in range(w.kernel_h):
        for column in range(w.kernel_w):
            offsets = (0, 0, row * w.dilation_h, column * w.dilation_w)
            ends = tuple(first + size for first, size in zip(offsets, read, strict=True))
            part = _part(op, f"tap_{row}_{column}", (source,))
            made.append((TpuSlice(**part, offsets=offsets, steps=(1,) * 4, ends=ends), read))
    taps = tuple(tap.output for tap, _ in made if isinstance(tap, TpuSlice))
    beside = TpuConcat(**_part(op, "taps", taps), axis=1)
    made.append((beside, (images, len(taps) * channels, *spans)))
    weight = np.ascontiguousarray(op.weight.transpose(0, 2, 3, 1).reshape(len(op.weight), -1, 1, 1))
    window = Window(1, 1, w.stride_h, w.stride_w)
    made.append((replace(op, inputs=(beside.output,), weight=weight, window=window), tuple(after)))
    return made


def _with_zeros(op: TpuConv) -> TpuConv:
    """The convolution with the longest dilations that divide its own, and zeros between its weights."""
    w = op.window
    short_h, short_w = (
        max(each for each in range(1, LONGEST_STEP + 1) if apart % each == 0)
        for apart in (w.dilation_h, w.dilation_w)
    )
    times_h, times_w = w.dilation_h // short_h, w.dilation_w // short_w
    height, width = (w.kernel_h - 1) * times_h + 1, (w.kernel_w - 1) * times_w + 1
    weight = np.zeros((*op.weight.shape[:2], height, width), np.float32)
    weight[:, :, ::times_h, ::times_w] = op.weight
    window = replace(w, kernel_h=height, kernel_w=width, dilation_h=short_h, dilation_w=short_w)
    return replace(op, weight=weight, window=window)


def _is_far_spread(op: TpuDeconv) -> bool:
    w = op.window
    depthwise = op.group > 1 and op.weight.shape[1] == 1
    longest = _LONGEST_DEPTHWISE_STRIDE if depthwise else LONGEST_STEP
    return max(w.stride_h, w.stride_w) > longest and (w.dilation_h, w.dilation_w) == (1, 1)


def _spread_cells(op: TpuDeconv, before: Sequence[int], after: Sequence[int]) -> list[Made]:
    """A convolution whose channels are the values of a cell, of the size of the strides, and the cells spread."""
    w, images, outputs = op.window, before[0], len(op.weight)
    strides, kernel, ahead = (w.stride_h, w.stride_w), (w.kernel_h, w.kernel_w), (w.pad_top, w.pad_left)
    taps = tuple(-(-size // stride) for size, stride in zip(kernel, strides, strict=True))
    cells = tuple(-(-(first + size) // stride) for first, size, stride in zip(ahead, after[2:], strides, strict=True))
    behind = [count - size for count, size in zip(cells, before[2:], strict=True)]
    whole = np.zeros((*op.weight.shape[:2], taps[0] * strides[0], taps[1] * strides[1]), np.float32)
    whole[:, :, : kernel[0], : kernel[1]] = op.weight
    parted = whole.reshape(*whole.shape[:2], taps[0], strides[0], taps[1], strides[1])[:, :, ::-1, :, ::-1]
    channels = outputs * strides[0] * strides[1]
    weight = parted.transpose(0, 3, 5, 1, 2, 4).reshape(channels, -1, *taps)
    window = Window(taps[0], taps[1], 1, 1, 1, 1, taps[0] - 1, taps[1] - 1, *behind)
    known, name = op.range_of or op.output, f"{op.output}_cells"
    convolution = TpuConv(
        name=f"{op.name}_cells",
        inputs=op.inputs,
        output=name,
        tags=op.tags,
        origins=op.origins,
        range_of=known,
        weight=np.ascontiguousarray(weight),
        bias=None if op.bias is None else np.repeat(op.bias, strides[0] * strides[1]),
        window=window,
        group=op.group,
        relu=op.relu,
        relu_limit=op.relu_limit,
    )
    parts = (images, outputs, *strides, *cells)
    spread = tuple(parts[axis] for axis in _SPREAD)
    full = (images, outputs, cells[0] * strides[0], cells[1] * strides[1])
    begins, ends = (0, 0, *ahead), (images, outputs, ahead[0] + after[2], ahead[1] + after[3])
    steps: list[tuple[str, type[TpuOp], dict[str, Any], tuple[int, ...]]] = [
        ("parts", TpuReshape, {}, parts),
        ("spread", TpuPermute, {"order": _SPREAD}, spread),
        ("full", TpuReshape, {}, full),
        ("", TpuSlice, {"offsets": begins, "steps": (1,) * 4, "ends": ends}, tuple(after)),
    ]
    made: list[Made] = [(convolution, (images, channels, *cells))]
    for part, kind, own, shape in steps[: 3 if full == tuple(after) else 4]:
        last = shape == tuple(after) and part in ("full", "")
        common: dict[str, Any] = {"tags": op.tags, "origins": op.origins, "inputs": (made[-1][0].output,)}
        names = (op.name, op.output) if last else (f"{op.name}_{part}", f"{op.output}_{part}")
        common |= {"name": names[0], "output": names[1], "range_of": op.range_of if last else known}
        made.append((kind(**common, **own), shape))
    return made


def _part(op: TpuConv, part: str, inputs: tuple[str, ...]) -> dict[str, Any]:
    """What a layer in front of the convolution has: the range of what that reads."""
    name = f"{op.output}_{part}"
    return {"name": name, "inputs": inputs, "output": name, "tags": op.tags, "range_of": op.inputs[0]}


def _common(op: TpuPool, inputs: tuple[str, ...]) -> dict[str, Any]:
    """What the layer that gives the pool's result has of the pool."""
    names = {"name": op.name, "inputs": inputs, "output": op.output}
    return {**names, "tags": op.tags, "origins": op.origins, "range_of": op.range_of}
