"""The first layers of an integer program in stripes of rows, as `stripes` says. Every integer stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from nnkit.program.affine import (
    AffineActivation,
    AffineConcat,
    AffineConv,
    AffineLookup,
    AffineMove,
    AffinePool,
    AffineProgram,
    AffineTensor,
)
from nnkit.program.window import Window
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.stripes import MARK, Stripes, origin, rows_behind

Link: TypeAlias = AffineConv | AffinePool | AffineActivation | AffineLookup


def fitted(program: AffineProgram, stripes: Stripes) -> AffineProgram:
    """The program with its first layers in stripes, where that is asked for or its memory needs it."""
    links = head_of(program)
    ends = [
        (i + 1, program.tensors[op.output].shape[1])
        for i, op in enumerate(links)
        if (window := window_of(op)) is not None and max(window.stride_h, window.stride_w) > 1
    ]
    return stripes.least(
        program,
        ends,
        lambda depth, count: in_stripes(program, links[:depth], count),
        lambda made: IntegerNetwork.of(made).arena_bytes,
    )


def without_stripes(program: AffineProgram) -> AffineProgram:
    """The program with the tensors alone that it has in one piece."""
    return replace(program, tensors={name: each for name, each in program.tensors.items() if origin(name) == name})


def window_of(op: Link) -> Window | None:
    """Its window; None: it computes each value of one value."""
    return op.window if isinstance(op, AffineConv | AffinePool) else None


def head_of(program: AffineProgram) -> tuple[Link, ...]:
    """The chain of layers from the only input on that can be computed in stripes."""
    if len(program.inputs) != 1:
        return ()
    links: list[Link] = []
    value = program.inputs[0]
    while len(program.tensors[value].shape) == 3 and value not in program.outputs:
        readers = [op for op in program.ops if value in op.inputs]
        op = readers[0] if len(readers) == 1 else None
        if not isinstance(op, Link) or len(op.inputs) != 1 or len(program.tensors[op.output].shape) != 3:
            break
        if isinstance(op, AffineConv) and op.transposed:
            break
        links.append(op)
        value = op.output
    return tuple(links)


def in_stripes(program: AffineProgram, links: tuple[Link, ...], count: int) -> AffineProgram:
    """The program with these layers of its head in `count` stripes."""
    tensors = dict(program.tensors)
    result = tensors[links[-1].output]
    rows = result.shape[1]
    source = program.inputs[0]
    ops: list[Link | AffineMove | AffineConcat] = []
    for number in range(count):
        steps = [*_steps(program, links, rows * number // count, rows * (number + 1) // count)]
        first, last = steps[-1][1:3]
        value = f"{source}{MARK}{number}"
        tensors[value] = _part(tensors[source], value, last - first)
        move = AffineMove(
            name=value, inputs=(source,), output=value, move="slice", starts=(0, first, 0), steps=(1, 1, 1)
        )
        ops.append(move)
        ends = [
            rows * (number + 1) // count - rows * number // count,
            *(last - first for _, first, last, *_ in steps),
        ]
        for (op, _, _, above, below), height in zip(reversed(steps), reversed(ends[:-1]), strict=True):
            made = f"{op.output}{MARK}{number}"
            tensors[made] = _part(tensors[op.output], made, height)
            striped = replace(op, name=f"{op.name}{MARK}{number}", inputs=(value,), output=made)
            if isinstance(striped, AffineConv | AffinePool):
                window = replace(striped.window, pad_top=above, pad_bottom=below)
                striped = replace(striped, window=window)
            ops.append(striped)
            value = made
    parts = tuple(f"{result.name}{MARK}{number}" for number in range(count))
    joined = AffineConcat(
        name=f"{links[-1].name}{MARK}",
        inputs=parts,
        output=result.name,
        requantize=(None,) * count,
        rows=True,
        origins=links[-1].origins,
    )
    gone = {op.output for op in links}
    kept = tuple(op for op in program.ops if op.output not in gone)
    for name in gone - {result.name}:
        del tensors[name]
    return replace(program, tensors=tensors, ops=(*ops, joined, *kept))


def _part(tensor: AffineTensor, name: str, rows: int) -> AffineTensor:
    return replace(tensor, name=name, shape=(tensor.shape[0], rows, tensor.shape[2]))


def _steps(
    program: AffineProgram, links: tuple[Link, ...], first: int, last: int
) -> Iterator[tuple[Link, int, int, int, int]]:
    """From the last layer to the first: the rows that it reads, and the rows of padding above and below them."""
    for op in reversed(links):
        window, height = window_of(op), program.tensors[op.inputs[0]].shape[1]
        low, high = first, last
        if window is not None:
            low, high = rows_behind(first, last, window.span_h, window.stride_h, window.pad_top)
        first, last = max(low, 0), min(high, height)
        yield op, first, last, first - low, high - last
