"""From a Program to the buffers its activations need: which tensors share bytes, and how long each buffer lives.

These share bytes:

* a reshape and its input, always;
* a part of a concatenation and the concatenation, where the part is stored bit for bit as it is (no shift, the
  same storage) and owns its bytes alone; otherwise the concatenation copies the part;
* an element-wise op's output and an input that nobody reads any more (element i is read before it is written);
* the output of a kernel that reads each channel before it writes there, and its input, where the caller says so.

Writing a part in place makes the whole concatenation live from its first part on. That can cost more than a copy
(a skip connection across a deep network), so `choose_storages` weighs each sharing by the peak it leads to.
Time is counted in op indices here; a planner that splits ops into weight chunks stretches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.errors import InternalError
from nnkit.program import Activation, Add, Concat, Lookup, Mul, OpBase, Program, Reshape, Tensor

Sharing: TypeAlias = tuple[Literal["concat", "in_place", "overwrite"], int, int]
"""(what, op index, input index): a wish that this input of this op shares bytes with the op's output."""


@dataclass(frozen=True)
class Storage:
    """Bytes that one or more tensors share, live from op `first_op` to op `last_op`, both included."""

    name: str
    size_bytes: int
    first_op: int
    last_op: int


@dataclass(frozen=True)
class Storages:
    """All activation buffers of a program.

    places: tensor -> (index into `buffers`, offset in bytes inside it).
    shared: the sharings that took effect.
    """

    buffers: tuple[Storage, ...]
    places: Mapping[str, tuple[int, int]]
    shared: tuple[Sharing, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", MappingProxyType(dict(self.places)))

    def live_bytes(self, op_count: int, alignment_bytes: int = 1) -> list[int]:
        """Bytes live at each op, each buffer rounded up to `alignment_bytes`."""
        spans = ((buffer.size_bytes, buffer.first_op, buffer.last_op) for buffer in self.buffers)
        return _live_bytes(spans, op_count, alignment_bytes)


def tensor_lifetimes(program: Program) -> dict[str, tuple[int, int]]:
    """First and last op index of each tensor that is an input or is written by an op, both included.

    Program inputs live from op 0 to their last reader, program outputs to the last op.

    Raises:
        InternalError: the program reads a value that nobody wrote, or writes one twice.
    """
    last = max(len(program.ops) - 1, 0)
    life = dict.fromkeys(program.inputs, (0, 0))
    for index, op in enumerate(program.ops):
        for name in op.inputs:
            if name not in life:
                raise InternalError(f"{name!r} is read before it is written", where=op.name)
            life[name] = (life[name][0], index)
        if op.output in life:
            raise InternalError(f"{op.output!r} is written twice", where=op.name)
        life[op.output] = (index, index)
    for name in program.outputs:
        if name not in life:
            raise InternalError(f"output {name!r} is never written", where=program.name)
        life[name] = (life[name][0], last)
    return life


def possible_sharings(program: Program) -> list[Sharing]:
    """Every sharing that the ops' arithmetic permits; which of them can hold together is `build_storages`' affair."""
    wishes: list[Sharing] = []
    for index, op in enumerate(program.ops):
        for position, name in enumerate(op.inputs):
            if isinstance(op, Concat) and _part_is_stored_as_is(op, position, program):
                wishes.append(("concat", index, position))
            elif isinstance(op, Add | Mul | Activation | Lookup) and _same_elements(
                program.tensors[name], program.tensors[op.output]
            ):
                wishes.append(("in_place", index, position))
    return wishes


def build_storages(program: Program, sharings: Sequence[Sharing]) -> Storages:
    """The buffers when `sharings` are granted in order; one that cannot hold beside the earlier ones is left out."""
    return _build(_Facts.of(program), sharings).storages()


def _build(facts: _Facts, sharings: Iterable[Sharing]) -> _Union:
    program = facts.program
    union = _Union(facts)
    for op in program.ops:
        if isinstance(op, Reshape):
            union.embed(op.output, op.inputs[0], 0)
    for sharing in sharings:
        kind, index, position = sharing
        op = program.ops[index]
        if kind == "concat":
            granted = _share_concat_part(union, op, position, facts.part_offset(index, position))
        elif kind == "in_place":
            granted = _share_in_place(union, op, index, position, program)
        else:
            granted = _share_overwriting(union, op, index, position, program)
        if granted:
            union.shared.append(sharing)
    return union


def choose_storages(
    program: Program,
    extra_bytes: Sequence[int] = (),
    alignment_bytes: int = 1,
    overwriting: Sequence[int] = (),
) -> Storages:
    """The sharings with the least peak, by steepest descent from granting all of them; ties go to sharing.

    Args:
        extra_bytes: bytes needed beside the activations at each op (the least weights chunk and scratch).
        alignment_bytes: buffers are rounded up to this.
        overwriting: ops whose kernel may write its output from where its first input starts, over what it has read.

    The peak meant here is the largest sum of live buffers at one op, the lower bound of any placement.
    """
    extra = list(extra_bytes) or [0] * len(program.ops)

    def peak_and_width(candidate: _Union) -> tuple[int, int]:
        live = candidate.live_bytes(len(program.ops), alignment_bytes)
        loads = [a + b for a, b in zip(live, extra, strict=False)] or live
        peak = max(loads)
        return peak, sum(load == peak for load in loads)

    wishes = possible_sharings(program)
    # Concatenations first: a value that an element-wise op rewrites then moves into the concatenation as a whole.
    everything = [w for w in wishes if w[0] == "concat"] + [w for w in wishes if w[0] == "in_place"]
    everything += [("overwrite", index, 0) for index in overwriting]
    facts = _Facts.of(program)
    first = best = _build(facts, everything)
    granted = list(first.shared)
    reached = peak_and_width(first)
    while True:
        binding = _binding_ops(best, extra, len(program.ops), alignment_bytes)
        trials: list[tuple[tuple[int, int], int, Sharing, _Union]] = []
        for sharing in best.shared:
            first_op, last_op = best.span(program.ops[sharing[1]].output)
            if any(first_op <= op <= last_op for op in binding):
                trial = _build(facts, [w for w in granted if w != sharing])
                trials.append((peak_and_width(trial), len(trials), sharing, trial))
        if not trials:
            break
        score, _, given_up, trial = min(trials, key=lambda t: t[:2])
        if score >= reached:
            break
        best, reached = trial, score
        granted.remove(given_up)
    if reached[0] == peak_and_width(first)[0]:
        return first.storages()  # nothing gained but copies
    # Take back what was given up on the way without need, and take what could not hold beside what is given up.
    taken = set(granted)
    for sharing in everything:
        if sharing not in taken:
            trial = _build(facts, [w for w in everything if w in taken or w == sharing])
            score = peak_and_width(trial)
            if score[0] <= reached[0]:
                best, reached = trial, score
                taken.add(sharing)
    return best.storages()


def moves_nothing(op: OpBase, storages: Storages, program: Program) -> bool:
    """Whether the op's result is already in place: a reshape, or a concatenation whose parts all are."""
    if isinstance(op, Reshape):
        return True
    if not isinstance(op, Concat):
        return False
    return all(
        place == storages.places[name]
        for name, place in zip(op.inputs, part_places(op, storages, program), strict=True)
    )


def part_places(op: Concat, storages: Storages, program: Program) -> list[tuple[int, int]]:
    """(buffer, offset) at which each part of a concatenation belongs."""
    buffer, offset = storages.places[op.output]
    places = []
    element_bytes = program.tensors[op.output].format.bytes
    for name in op.inputs:
        places.append((buffer, offset))
        offset += program.tensors[name].elements * element_bytes
    return places


def _binding_ops(storages: _Union, extra: Sequence[int], op_count: int, alignment_bytes: int) -> list[int]:
    live = storages.live_bytes(op_count, alignment_bytes)
    loads = [a + b for a, b in zip(live, extra, strict=False)] or live
    peak = max(loads)
    return [index for index, load in enumerate(loads) if load == peak]


def _part_is_stored_as_is(op: Concat, position: int, program: Program) -> bool:
    name = op.inputs[position]
    if name in program.inputs or op.inputs.index(name) != position or op.shifts[position] != 0:
        return False
    part, whole = program.tensors[name].format, program.tensors[op.output].format
    return part.bits == whole.bits and getattr(part, "signed", None) == getattr(whole, "signed", None)


def _same_elements(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.format.bytes == b.format.bytes


def _share_concat_part(union: _Union, op: OpBase, position: int, offset_bytes: int) -> bool:
    name = op.inputs[position]
    if not union.covers_root(name) or union.holds_input(name) or union.root(name)[0] == union.root(op.output)[0]:
        return False
    union.embed(name, op.output, offset_bytes)
    return True


def _share_in_place(union: _Union, op: OpBase, index: int, position: int, program: Program) -> bool:
    name = op.inputs[position]
    root, out_root = union.root(name), union.root(op.output)
    if root[0] == out_root[0] or not union.covers_root(name):
        return False
    if union.holds_input(name) and not union.covers_root(op.output):
        return False
    if any(union.life[m][1] > index or m in program.outputs for m in union.members(name)):
        return False  # somebody still reads what would be overwritten
    start, end = out_root[1], out_root[1] + union.size(op.output)
    for member in union.members(op.output):
        offset = union.root(member)[1]
        overlaps = offset < end and start < offset + union.size(member)
        if overlaps and (union.life[member][0] < index or member in program.inputs):
            return False  # another operand already lends its bytes
    for other in op.inputs:
        same_root = union.root(other)[0] == root[0]
        if same_root and (union.root(other)[1], union.size(other)) != (0, union.size(name)):
            return False  # the other operand is a piece of these bytes: it would be overwritten while it is read
    union.embed(name, op.output, 0)
    return True


def _share_overwriting(union: _Union, op: OpBase, index: int, position: int, program: Program) -> bool:
    """The output at the start of the input, which nobody reads any more; both alone in their bytes until then."""
    name = op.inputs[position]
    if not union.covers_root(name) or union.size(op.output) > union.size(name):
        return False
    if union.members(op.output) != [op.output] or union.root(name)[0] == union.root(op.output)[0]:
        return False
    if any(union.life[m][1] > index or m in program.outputs for m in union.members(name)):
        return False
    union.embed(op.output, name, 0)
    return True


@dataclass(frozen=True)
class _Facts:
    """What every trial of sharings asks of a program. part_offsets_bytes: of concatenations, by op and input."""

    program: Program
    life: dict[str, tuple[int, int]]
    sizes_bytes: dict[str, int]
    inputs: frozenset[str]
    part_offsets_bytes: dict[int, list[int]]

    @staticmethod
    def of(program: Program) -> _Facts:
        life = tensor_lifetimes(program)
        offsets = {
            index: list(
                accumulate(
                    (program.tensors[n].elements * program.tensors[op.output].format.bytes for n in op.inputs),
                    initial=0,
                )
            )
            for index, op in enumerate(program.ops)
            if isinstance(op, Concat)
        }
        sizes = {name: program.tensors[name].size_bytes for name in life}
        return _Facts(program, life, sizes, frozenset(program.inputs), offsets)

    def part_offset(self, index: int, position: int) -> int:
        return self.part_offsets_bytes[index][position]


class _Union:
    """Tensors embedded in one another at byte offsets. shared: the sharings that took effect."""

    def __init__(self, facts: _Facts) -> None:
        self.life = facts.life
        self.shared: list[Sharing] = []
        self._sizes = facts.sizes_bytes
        self._inputs = facts.inputs
        self._parent: dict[str, tuple[str, int]] = {}
        self._members: dict[str, list[str]] = {name: [name] for name in facts.life}
        self._spans = dict(facts.life)  # of roots: first and last op of all their members

    def root(self, name: str) -> tuple[str, int]:
        """The outermost tensor that holds `name`, and the offset inside it."""
        offset, start = 0, name
        while name in self._parent:
            name, step = self._parent[name]
            offset += step
        if name != start:
            self._parent[start] = name, offset  # what holds it now goes on to be held as one
        return name, offset

    def size(self, name: str) -> int:
        return self._sizes[name]

    def members(self, name: str) -> list[str]:
        return self._members[self.root(name)[0]]

    def span(self, name: str) -> tuple[int, int]:
        """First and last op in which what shares bytes with `name` lives."""
        return self._spans[self.root(name)[0]]

    def covers_root(self, name: str) -> bool:
        root, offset = self.root(name)
        return offset == 0 and self.size(root) == self.size(name)

    def holds_input(self, name: str) -> bool:
        return not self._inputs.isdisjoint(self.members(name))

    def embed(self, inner: str, outer: str, offset: int) -> None:
        """Put the root of `inner`, which `inner` covers, at `offset` inside `outer`."""
        inner_root, outer_root = self.root(inner)[0], self.root(outer)[0]
        self._parent[inner_root] = (outer, offset)
        self._members[outer_root].extend(self._members.pop(inner_root))
        (a, b), (c, d) = self._spans.pop(inner_root), self._spans[outer_root]
        self._spans[outer_root] = min(a, c), max(b, d)

    def live_bytes(self, op_count: int, alignment_bytes: int) -> list[int]:
        """As `Storages.live_bytes` of the storages."""
        return _live_bytes(
            ((self._sizes[root], *span) for root, span in self._spans.items()), op_count, alignment_bytes
        )

    def storages(self) -> Storages:
        roots = sorted(self._spans, key=lambda root: (self._spans[root][0], root))
        index = {root: i for i, root in enumerate(roots)}
        buffers = tuple(Storage(root, self.size(root), *self._spans[root]) for root in roots)
        places = {name: (index[self.root(name)[0]], self.root(name)[1]) for name in self.life}
        return Storages(buffers, places, tuple(self.shared))


def _live_bytes(buffers: Iterable[tuple[int, int, int]], op_count: int, alignment_bytes: int) -> list[int]:
    """buffers: size, first op, last op."""
    change = [0] * (max(op_count, 1) + 1)
    for size_bytes, first_op, last_op in buffers:
        size = -(-size_bytes // alignment_bytes) * alignment_bytes
        change[first_op] += size
        change[last_op + 1] -= size
    return list(accumulate(change[:-1]))
