"""Transpositions that the compiler has no code for, or takes for others, in steps that it computes correctly.

For the cv18xx it takes axes of 1 out of a transposition and, while more than four are left, joins axes that stay side
by side. Of four axes its code generator knows 17 orders of 24 and ends in an assertion on the others; of five it ends
too. Such a transposition is written on joined axes, and where that is not enough as exchanges of two neighbouring
blocks of axes, [a, b, c, d] -> [a, c, b, d], the fewest there are. What the compiler makes one layer of with the
reshapes around it, DepthToSpace and SpaceToDepth, stays as it is; not where the values within are outputs, as in the
traced model, since it makes none there.

On all chips the compiler makes that one layer of the reshape's input where the shape of what comes out is as it
should be; of the input's shape it asks for DepthToSpace's channels alone (`TopPermuteToPixelShuffle` and
`TopPermuteToReorg` of its rewrites). Where the input is no such image, as between a normalisation of rows and
SpaceToDepth, the layer gives other values; then the transposition is written in steps, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from nnkit.calibrate.stats import ValueRange
from nnkit.graph.view import Shape
from nnkit_tpu.places import known_as
from nnkit_tpu.program import TpuGraph, TpuOp, TpuPermute, TpuReshape, TpuTensor

Order = tuple[int, ...]

_WITHOUT_CODE = {(1, 0, 3, 2), (1, 3, 0, 2), (1, 3, 2, 0), (2, 0, 3, 1), (2, 3, 1, 0), (3, 0, 2, 1), (3, 2, 1, 0)}
_MOST_AXES = 4
_BLOCKS: Mapping[Order, tuple[int, int]] = {
    (0, 1, 4, 2, 5, 3): (2, 3),
    (0, 3, 4, 1, 5, 2): (1, 2),
    (0, 3, 5, 1, 2, 4): (3, 5),
}
"""Orders of DepthToSpace (CRD, DCR) and SpaceToDepth on six axes, and the axes of their blocks' sides."""
_TO_DEPTH: tuple[Order, ...] = ((0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4))
"""Orders of SpaceToDepth; the second is that of PixelUnshuffle, which is one layer on the BM chips, too."""


@dataclass(frozen=True, eq=False)
class Step:
    """A transposition [1, ...] -> [1, ...] of `shape`."""

    shape: Shape
    order: Order


def steps_of(shape: Shape, order: Order) -> tuple[Step, ...]:
    """The transposition as those that the chips have code for; empty where it is one itself, or mixes images."""
    if order[0] != 0 or shape[0] != 1:
        return ()
    long = [axis for axis in order if shape[axis] > 1]
    rank = {axis: place for place, axis in enumerate(sorted(long))}
    plain = tuple(rank[axis] for axis in long)
    sizes, joined = _joined(tuple(shape[axis] for axis in sorted(long)), plain)
    if _has_code(plain) if len(plain) <= _MOST_AXES else _has_code(_joined_to_four(plain)):
        return ()
    if _has_code(joined):
        return (Step((1, *sizes), (0, *(axis + 1 for axis in joined))),)
    now, steps = tuple(range(len(joined))), []
    for first, middle, last in _exchanges(joined):
        parts = (now[:first], now[first:middle], now[middle:last], now[last:])
        blocks = tuple(_product(sizes, part) for part in parts)
        steps.append(Step((1, *blocks), (0, 1, 3, 2, 4)))
        now = (*parts[0], *parts[2], *parts[1], *parts[3])
    return tuple(steps)


def _has_code(order: Order) -> bool:
    return len(order) <= _MOST_AXES and order not in _WITHOUT_CODE


def _joined(sizes: Shape, order: Order) -> tuple[Shape, Order]:
    """With axes that stay side by side as one."""
    runs: list[list[int]] = []
    for axis in order:
        if runs and runs[-1][-1] + 1 == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    firsts = sorted(run[0] for run in runs)
    by_first = {run[0]: _product(sizes, run) for run in runs}
    return tuple(by_first[first] for first in firsts), tuple(firsts.index(run[0]) for run in runs)


def _joined_to_four(order: Order) -> Order:
    """The order of four axes, where so many can be joined one after another; else the order of all that cannot."""
    while len(order) > _MOST_AXES:
        place = next((at for at in range(len(order) - 1) if order[at] + 1 == order[at + 1]), None)
        if place is None:
            return order
        gone = order[place + 1]
        order = tuple(axis - (axis > gone) for axis in order if axis != gone)
    return order


def _exchanges(order: Order) -> list[tuple[int, int, int]]:
    """The fewest exchanges of neighbouring blocks [first, middle) and [middle, last) that make the order."""
    start = tuple(range(len(order)))
    ways: dict[Order, list[tuple[int, int, int]]] = {start: []}
    waiting = deque([start])
    while order not in ways:
        now = waiting.popleft()
        for first in range(len(now)):
            for middle in range(first + 1, len(now)):
                for last in range(middle + 1, len(now) + 1):
                    after = (*now[:first], *now[middle:last], *now[first:middle], *now[last:])
                    if after not in ways:
                        ways[after] = [*ways[now], (first, middle, last)]
                        waiting.append(after)
    return ways[order]


def _product(sizes: Sequence[int], axes: Sequence[int]) -> int:
    return prod(sizes[axis] for axis in axes)


def in_steps(
    graph: TpuGraph, ranges: dict[str, ValueRange] | None, modes: dict[str, str], *, is_cv: bool
) -> TpuGraph:
    """The graph with such transpositions in steps; ranges and modes get those of the values in between."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        steps: tuple[Step, ...] = ()
        if isinstance(op, TpuPermute) and (not _is_blocks(op, graph) if is_cv else _is_mistaken(op, graph)):
            steps = steps_of(graph.tensors[op.inputs[0]].shape, op.order)
        last = op.inputs[0]
        for index, step in enumerate(steps):
            after = tuple(step.shape[axis] for axis in step.order)
            for part, each in (("shape", step.shape), ("step", after)):
                name = f"{op.output}_{part}_{index}"
                tensors[name] = TpuTensor(name, each, graph.tensors[op.output].format)
                known_as(name, op.output, ranges, modes)
            shaped, turned = (f"{op.output}_{part}_{index}" for part in ("shape", "step"))
            ops.append(TpuReshape(name=shaped, inputs=(last,), output=shaped, tags=op.tags))
            ops.append(TpuPermute(name=turned, inputs=(shaped,), output=turned, order=step.order, tags=op.tags))
            last = turned
        ops.append(
            TpuReshape(name=op.name, inputs=(last,), output=op.output, tags=op.tags, origins=op.origins)
            if steps
            else op
        )
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def _is_blocks(op: TpuPermute, graph: TpuGraph) -> bool:
    """Whether the compiler makes one layer, a right one, of the transposition and the reshapes around it."""
    shape, sides = graph.tensors[op.inputs[0]].shape, _BLOCKS.get(op.order, (0, 0))
    return (
        op.order in _BLOCKS
        and shape[sides[0]] == shape[sides[1]]
        and isinstance(graph.producer(op.inputs[0]), TpuReshape)
        and len(graph.consumers(op.inputs[0])) == len(graph.consumers(op.output)) == 1
        and isinstance(graph.consumers(op.output)[0], TpuReshape)
        and not {op.inputs[0], op.output}.intersection(graph.outputs)
        and _is_of_image(op, graph)
    )


def _is_mistaken(op: TpuPermute, graph: TpuGraph) -> bool:
    """Whether the compiler makes one layer of it and of the reshapes around it, of an input of another shape."""
    shape = graph.tensors[op.inputs[0]].shape
    after = [graph.tensors[each.output].shape for each in graph.consumers(op.output) if isinstance(each, TpuReshape)]
    sources = [graph.tensors[name].shape for name in _reshaped(op.inputs[0], graph)]
    if op.order in _TO_DEPTH:
        made, fits = (shape[0], shape[1] * shape[3] ** 2, shape[2], shape[4]), bool(sources)
    elif op.order in _BLOCKS:
        channels = shape[1] if op.order[1] == 1 else shape[3]
        made = (shape[0], channels, shape[2] * shape[4], shape[2] * shape[5])
        fits = any(source[1:2] == (prod(shape[1:4]),) for source in sources)
    else:
        return False
    return fits and made in after and not _is_of_image(op, graph)


def _reshaped(name: str, graph: TpuGraph) -> list[str]:
    """What the value is a reshape of, the nearest first; reshapes that are read once become one."""
    names: list[str] = []
    while isinstance(before := graph.producer(name), TpuReshape):
        name = before.inputs[0]
        names.append(name)
        if len(graph.consumers(name)) > 1 or name in graph.outputs:
            break
    return names


def _is_of_image(op: TpuPermute, graph: TpuGraph) -> bool:
    """Whether what the reshapes before a transposition of blocks read is the image whose blocks are moved."""
    shape = graph.tensors[op.inputs[0]].shape
    source = [op.inputs[0], *_reshaped(op.inputs[0], graph)][-1]
    if op.order in _TO_DEPTH:
        return graph.tensors[source].shape == (*shape[:2], prod(shape[2:4]), prod(shape[4:]))
    return graph.tensors[source].shape == (shape[0], prod(shape[1:4]), *shape[4:])
