"""Consecutive layers in stripes of rows, so that the wide tensors between them need never be whole in memory.

    x -> layers -> y      becomes      for each stripe of y: the rows of x behind it -> layers -> rows of y
                                       y = the stripes, one below the other

A stripe reads the rows that its windows reach; rows between the layers that two stripes need are computed twice.
Every integer stays the same. Any graph of layers may stand between the two tensors, Fire modules and residuals
among them; only x and y are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from nnkit.memory.lifetimes import tensor_lifetimes
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    FusedPool,
    JoinRows,
    Lookup,
    Mul,
    OpBase,
    Pool,
    Program,
    Slice,
    Tensor,
    Window,
)

Rows: TypeAlias = tuple[int, int]
"""[first, last) of a tensor's rows."""

_MARK = ".rows"


@dataclass(frozen=True)
class Segment:
    """Ops first .. last - 1 of a program, which read one tensor of all others and leave one; in `count` stripes."""

    first: int
    last: int
    count: int


def cuts(program: Program) -> list[int]:
    """Numbers of ops behind which one tensor alone lives, of channels, rows and columns; 0: before the first op.

    Between two of them lie ops that read and leave nothing but these tensors.
    """
    life = tensor_lifetimes(program)
    places = []
    for done in range(len(program.ops)):
        begun = {name for name, (first, _) in life.items() if first < done} | {*program.inputs}
        live = [name for name in begun if life[name][1] >= done]
        if live == [entry_of(program, done)] and len(program.tensors[live[0]].shape) == 3:
            places.append(done)
    return places


def entry_of(program: Program, done: int) -> str:
    """The tensor that lives behind the first `done` ops."""
    return program.ops[done - 1].output if done else program.inputs[0]


def can_be_striped(op: OpBase, program: Program) -> bool:
    """Whether some rows of the op's result need some rows of its inputs alone."""
    output = program.tensors[op.output]
    if op.placement != "npu" or len(output.shape) != 3:
        return False
    if isinstance(op, Conv2d | Pool | Concat | Activation | Lookup):
        return all(len(program.tensors[name].shape) == 3 for name in op.inputs)
    return isinstance(op, Add | Mul) and all(program.tensors[name].shape == output.shape for name in op.inputs)


def in_stripes(program: Program, segments: Sequence[Segment]) -> Program:
    """The program with these segments in stripes; segments do not overlap.

    The first stripes are the larger ones where the rows do not divide.
    """
    tensors = dict(program.tensors)
    ops: list[OpBase] = []
    done = 0
    for segment in sorted(segments, key=lambda each: each.first):
        ops += program.ops[done : segment.first]
        ops += _striped(program, segment, tensors)
        done = segment.last
    ops += program.ops[done:]
    used = {*program.inputs, *(op.output for op in ops)}
    return replace(program, ops=tuple(ops), tensors={name: each for name, each in tensors.items() if name in used})


def segment_program(program: Program, segment: Segment) -> Program:
    """The segment alone, as a program of its own; of one stripe: its layers as they are."""
    tensors = dict(program.tensors)
    ops = program.ops[segment.first : segment.last]
    made = {op.output for op in ops}
    entries = tuple(dict.fromkeys(name for op in ops for name in op.inputs if name not in made))
    leaves = tuple(op.output for op in ops if op.output == ops[-1].output or op.output in program.outputs)
    if segment.count > 1:
        ops = tuple(_striped(program, segment, tensors))
    used = {*entries, *(op.output for op in ops)}
    kept = {name: each for name, each in tensors.items() if name in used}
    return replace(program, tensors=kept, ops=ops, inputs=entries, outputs=leaves)


def _striped(program: Program, segment: Segment, tensors: dict[str, Tensor]) -> list[OpBase]:
    """The ops in stripes and the op that joins them; adds the stripes' tensors."""
    end = program.ops[segment.last - 1]
    height = program.tensors[end.output].shape[1]
    ops: list[OpBase] = []
    parts = []
    for number in range(segment.count):
        rows = -(-height * number // segment.count), -(-height * (number + 1) // segment.count)
        stripe = _Stripe(program, segment, number, rows, tensors)
        ops += stripe.ops
        parts.append(stripe.result)
    ops.append(
        JoinRows(
            name=f"{end.name}{_MARK}", inputs=tuple(parts), output=end.output, origins=end.origins or (end.name,)
        )
    )
    return ops


class _Stripe:
    """One stripe's ops: those of the segment for the rows that the stripe needs."""

    def __init__(
        self, program: Program, segment: Segment, number: int, rows: Rows, tensors: dict[str, Tensor]
    ) -> None:
        self._program, self._number, self._tensors = program, number, tensors
        self._made = _needed_rows(program, segment, rows)
        entry = entry_of(program, segment.first)
        self._made[entry] = 0, program.tensors[entry].shape[1]
        self._names = {entry: entry}
        self._slices: dict[tuple[str, Rows], str] = {}
        self.ops: list[OpBase] = []
        for op in program.ops[segment.first : segment.last]:
            self._add(op)
        self.result = self._names[program.ops[segment.last - 1].output]

    def _add(self, op: OpBase) -> None:
        first, last = self._made[op.output]
        inputs = tuple(self._rows_of(name, _rows_read(op, (first, last), self._program)) for name in op.inputs)
        name = f"{op.output}{_MARK}{self._number}"
        self._names[op.output] = name
        self._tensors[name] = _part(self._program.tensors[op.output], name, last - first)
        self.ops.append(
            replace(
                _with_padding(op, (first, last), self._program),
                name=f"{op.name}{_MARK}{self._number}",
                inputs=inputs,
                output=name,
                origins=op.origins or (op.name,),
            )
        )

    def _rows_of(self, name: str, rows: Rows) -> str:
        """These rows of a tensor: the stripe's own, or a copy of some of them."""
        made = self._made[name]
        if rows == made:
            return self._names[name]
        if (name, rows) not in self._slices:
            given = self._names[name]
            part = f"{name}{_MARK}{self._number}.{rows[0]}"
            while part in self._tensors:
                part += "."
            self._slices[name, rows] = part
            self._tensors[part] = _part(self._program.tensors[name], part, rows[1] - rows[0])
            starts = (0, rows[0] - made[0], 0)
            self.ops.append(Slice(name=part, inputs=(given,), output=part, starts=starts, steps=(1, 1, 1)))
        return self._slices[name, rows]


def _part(tensor: Tensor, name: str, rows: int) -> Tensor:
    return replace(tensor, name=name, shape=(tensor.shape[0], rows, tensor.shape[2]))


def _needed_rows(program: Program, segment: Segment, rows: Rows) -> dict[str, Rows]:
    """For every tensor of the segment, the rows that rows of its result need, from the first to the last."""
    ops = program.ops[segment.first : segment.last]
    needed = {ops[-1].output: rows}
    for op in reversed(ops):
        read = _rows_read(op, needed[op.output], program)
        for name in op.inputs:
            known = needed.get(name, read)
            needed[name] = min(known[0], read[0]), max(known[1], read[1])
    return needed


def _rows_read(op: OpBase, rows: Rows, program: Program) -> Rows:
    """Rows of the inputs behind rows of the result, without the padding."""
    return _clipped(_rows_reached(op, rows, program), program.tensors[op.inputs[0]].shape[1])


def _rows_reached(op: OpBase, rows: Rows, program: Program) -> Rows:
    """The same with the padding, where rows are negative or behind the last."""
    if isinstance(op, Pool):
        return op.window.rows_behind(*rows)
    if isinstance(op, Conv2d):
        return op.window.rows_behind(*_convolution_rows(op, rows, program))
    return rows


def _convolution_rows(op: Conv2d, rows: Rows, program: Program) -> Rows:
    """Rows of a convolution behind rows of its pool; without a pool the same."""
    if op.pool is None:
        return rows
    return _clipped(op.pool.window.rows_behind(*rows), _convolution_height(op, program))


def _convolution_height(op: Conv2d, program: Program) -> int:
    return op.window.output_hw(*program.tensors[op.inputs[0]].shape[1:])[0]


def _clipped(rows: Rows, height: int) -> Rows:
    return max(rows[0], 0), min(rows[1], height)


def _with_padding(op: OpBase, rows: Rows, program: Program) -> OpBase:
    """The op with the padding above and below that these rows of its result read."""
    if not isinstance(op, Conv2d | Pool):
        return op
    height = program.tensors[op.inputs[0]].shape[1]
    window = _padded(op.window, _rows_reached(op, rows, program), height)
    if isinstance(op, Pool):
        return replace(op, window=window)
    pool = op.pool
    if pool is not None:
        pool = FusedPool(
            pool.kind,
            _padded(pool.window, pool.window.rows_behind(*rows), _convolution_height(op, program)),
            pool.multiplier,
            pool.shift,
        )
    return replace(op, window=window, pool=pool)


def _padded(window: Window, reached: Rows, height: int) -> Window:
    first, last = _clipped(reached, height)
    return replace(window, pad_top=first - reached[0], pad_bottom=reached[1] - last)
