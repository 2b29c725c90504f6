"""Group and instance normalisation, which the BM chips have as one op, where it is written as its parts.

Exporters write a group normalisation as an instance normalisation between two reshapes, and nnkit that one as a layer
normalisation of rows. Scales and biases of channels may stand before or behind the reshape back, the latter as a
depthwise convolution too, and functions of single values before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.program import (
    TpuActivation,
    TpuConv,
    TpuGraph,
    TpuGroupNorm,
    TpuLayerNorm,
    TpuOp,
    TpuReshape,
    TpuScale,
    TpuTensor,
)

_IMAGE, _ROWS = 4, 3  # axes
_Linear = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class _Parts:
    """What a normalisation is written as. image: the shape that it is of; linear: the scales in it, in order;
    functions: of single values, behind the last of them; all: every op, in order."""

    before: TpuReshape
    image: tuple[int, ...]
    rows: TpuLayerNorm
    linear: tuple[TpuScale | TpuConv, ...]
    functions: tuple[TpuActivation, ...]
    all: tuple[TpuOp, ...]


def group_norms(graph: TpuGraph) -> TpuGraph:
    """The graph with one op for every normalisation of the rows that an image is reshaped to, and back."""
    every = [_parts(graph, op) for op in graph.ops if isinstance(op, TpuLayerNorm)]
    parts = {each.rows.output: each for each in every if each is not None}
    if not parts:
        return graph
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    gone = {op.output for each in parts.values() for op in each.all if op is not each.before}
    for op in graph.ops:
        if op.output in parts:
            made = _whole(graph, parts[op.output])
            ops += made
            image = parts[op.output].image
            tensors |= {each.output: TpuTensor(each.output, image) for each in made if each.output not in tensors}
        elif op.output not in gone:
            ops.append(op)
    read = {*graph.outputs, *(name for op in ops for name in op.inputs)}
    idle = {each.before.output for each in parts.values()} - read
    ops = [op for op in ops if op.output not in idle]
    kept = {*graph.inputs, *(op.output for op in ops)}
    return replace(graph, tensors={name: tensors[name] for name in tensors if name in kept}, ops=tuple(ops))


def _parts(graph: TpuGraph, rows: TpuLayerNorm) -> _Parts | None:
    """What stands around the normalisation of rows; None where it is none of an image's channels."""
    before = graph.producer(rows.inputs[0])
    if not isinstance(before, TpuReshape) or rows.scale is not None or rows.bias is not None:
        return None
    source, shape = (graph.tensors[name].shape for name in (before.inputs[0], rows.inputs[0]))
    if len(shape) != _ROWS or rows.axis != _ROWS - 1:
        return None
    linear, functions, every = list[TpuScale | TpuConv](), list[TpuActivation](), list[TpuOp]([before, rows])

    def ahead() -> TpuOp | None:
        last, readers = every[-1], graph.consumers(every[-1].output)
        rectified = isinstance(last, TpuScale | TpuConv) and last.relu
        alone = len(readers) == 1 and last.output not in graph.outputs and not rectified
        return readers[0] if alone else None

    def take_linear() -> None:
        while isinstance(op := ahead(), TpuScale | TpuConv) and (isinstance(op, TpuScale) or op.is_of_channels()):
            linear.append(op)
            every.append(op)

    take_linear()
    while isinstance(op := ahead(), TpuActivation) and op.function != "prelu":
        functions.append(op)
        every.append(op)
    back = ahead()
    if not isinstance(back, TpuReshape):
        return None
    every.append(back)
    behind = graph.tensors[back.output].shape
    image = next((each for each in (source, behind) if _is_image(each, shape)), None)
    if image is None or any("cpu" in op.tags for op in every):
        return None
    if not functions and behind == image:
        take_linear()
    return _Parts(before, image, rows, tuple(linear), tuple(functions), tuple(every))


def _is_image(shape: Sequence[int], rows: Sequence[int]) -> bool:
    """Whether the rows are of groups of channels."""
    return len(shape) == _IMAGE and shape[0] == rows[0] and shape[1] % rows[1] == 0


def _whole(graph: TpuGraph, parts: _Parts) -> Sequence[TpuOp]:
    """The normalisation as one op, and the functions behind it; reshapes around them where it is of no image."""
    rows, last = parts.rows, parts.all[-1].output
    tags = tuple(dict.fromkeys(tag for op in parts.all[1:] for tag in op.tags))
    end = parts.linear[-1] if parts.linear else None
    functions = list(parts.functions)
    if end is not None and end.relu:
        bounds = (0.0, end.upper_limit)
        own: dict[str, Any] = {"name": f"{end.name}_relu", "inputs": (), "output": last, "tags": end.tags}
        functions.append(TpuActivation(function="relu", bounds=bounds, **own))
    normalised = (end or rows).output if functions else last
    gain, offset = _linear(parts, parts.image[1])
    normal = TpuGroupNorm(
        name=rows.name,
        inputs=parts.before.inputs,
        output=normalised,
        tags=tags,
        origins=tuple(dict.fromkeys(origin for op in parts.all for origin in op.origins)),
        groups=graph.tensors[rows.inputs[0]].shape[1],
        epsilon=rows.epsilon,
        scale=None if np.all(gain == 1) else gain.astype(np.float32),
        bias=None if not np.any(offset) else offset.astype(np.float32),
    )
    return _of_image(graph, parts, [normal, *functions])


def _of_image(graph: TpuGraph, parts: _Parts, ops: Sequence[TpuOp]) -> list[TpuOp]:
    """The ops behind one another, each with values of the image's shape."""
    last, given = parts.all[-1].output, parts.before.inputs
    made = list[TpuOp]()
    if graph.tensors[given[0]].shape != parts.image:
        name = f"{parts.before.output}_image"
        made.append(replace(parts.before, inputs=given, output=name, range_of=parts.before.range_of or given[0]))
    stays = graph.tensors[last].shape == parts.image
    for op in ops:
        ends = op is ops[-1] and stays
        name = last if ends else f"{op.output}_image"
        known = "" if ends else op.range_of or op.output
        made.append(replace(op, inputs=(made[-1].output,) if made else given, output=name, range_of=known))
    if not stays:
        made.append(replace(parts.all[-1], inputs=(made[-1].output,)))
    return made


def _linear(parts: _Parts, channels: int) -> _Linear:
    """Scale and bias of each channel."""
    gain, offset = np.ones(channels), np.zeros(channels)
    for op in parts.linear:
        scale = op.scale if isinstance(op, TpuScale) else op.weight.reshape(-1)
        bias = np.zeros(len(scale)) if op.bias is None else op.bias
        of_each = channels // len(scale)  # of a group, its channels
        factor, added = (np.repeat(each.astype(np.float64), of_each) for each in (scale, bias))
        gain, offset = gain * factor, offset * factor + added
    return gain, offset
