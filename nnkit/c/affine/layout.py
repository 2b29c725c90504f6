"""Where the values of an affine program lie: which share bytes, and the regions that the rest is packed into.

Inputs and outputs are arrays of the caller, or lie in a region as well: then an input lives from the first call on,
and an output to the end. Where a call's tables are streamed, they take bytes of a region while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nnkit.c.affine.call import Call, Code, Join, Kernel, View, pixels_and_channels, suffix
from nnkit.memory.engine import Effort
from nnkit.memory.placement_checker import check_placement
from nnkit.memory.placing import place
from nnkit.memory.plan import BufferKind, Region
from nnkit.memory.problem import UNBOUNDED_BYTES, Alias, Diagonal, Placement, Problem, Request
from nnkit.memory.sharing import Life, Wish, granted
from nnkit.program.affine import AffineProgram

ARENA = Region("arena", UNBOUNDED_BYTES, 4)
"""Where values lie that are not the caller's, unless other regions are named."""


@dataclass(frozen=True)
class Place:
    """A value: base is `""` for a region, else the program input or output that holds it.

    stride: elements from pixel to pixel, more than the channels for a part of a concatenation. region: its name,
    where a region holds the value.
    """

    base: str
    offset_bytes: int
    stride: int
    region: str = ""


@dataclass(frozen=True)
class Room:
    """A buffer of a region, live from one call to another, both included."""

    name: str
    size_bytes: int
    first_step: int
    last_step: int
    kind: BufferKind


@dataclass(frozen=True, eq=False)
class Layout:
    """places: of every tensor. scratch: offset by call. dropped: calls that need not be made.

    weights: offset of the tables by call, where they are streamed.
    rooms: all that lies in regions; sharings: which of it lies inside others.
    """

    places: Mapping[str, Place]
    scratch: Mapping[int, int]
    weights: Mapping[int, int]
    dropped: frozenset[int]
    rooms: tuple[Room, ...]
    sharings: tuple[Wish, ...]
    placement: Placement

    @cached_property
    def inside(self) -> Mapping[str, str]:
        """The room that each shared one lies in, by name."""
        return {wish.inner: wish.outer for wish in self.sharings}

    def scratch_region(self, step: int) -> str:
        """The region that holds a call's scratch."""
        return self.placement.places[_scratch_name(step)].region

    def outermost(self, name: str) -> str:
        """The room that holds this one and lies in no other."""
        while name in self.inside:
            name = self.inside[name]
        return name


@dataclass(frozen=True, eq=False)
class Work:
    """The program's calls in order. owners: by call, the index of its op. joins: by call, the part that it copies."""

    calls: tuple[Call, ...]
    owners: tuple[int, ...]
    joins: Mapping[int, Join]
    roots: Mapping[str, str]

    def root(self, value: str) -> str:
        """The value whose bytes hold this one whole."""
        while value in self.roots:
            value = self.roots[value]
        return value


def work_of(program: AffineProgram, codes: Sequence[Code], outside: Collection[str] | None = None) -> Work:
    """The calls of all ops, and what views come to.

    outside: values in arrays of the caller; None: all inputs and outputs.
    """
    calls: list[Call] = []
    owners: list[int] = []
    joins: dict[int, Join] = {}
    roots: dict[str, str] = {}
    outside = {*program.inputs, *program.outputs} if outside is None else outside
    for index, code in enumerate(codes):
        for each in code:
            if isinstance(each, View):
                held = Work((), (), {}, roots).root(each.source)
                if each.output not in outside:
                    roots[each.output] = each.source
                    continue
                if held not in outside:  # what computes it writes into the caller's array
                    roots[held] = each.output
                    continue
                each = _copied(program, each)
            if isinstance(each, Join):
                joins[len(calls)] = each
            calls.append(each.copies if isinstance(each, Join) else each)
            owners.append(index)
    return Work(tuple(calls), tuple(owners), joins, roots)


def _copied(program: AffineProgram, view: View) -> Call:
    source, output = program.tensors[view.source], program.tensors[view.output]
    numbers = {"pixels": 1, "channels": output.elements, "y_stride": output.elements}
    kernel = Kernel("elementwise", "copy", (("a", suffix(source)), ("y", suffix(output))))
    return Call(kernel, numbers, (view.source,), view.output)


def layout_of(
    program: AffineProgram,
    work: Work,
    outside: Collection[str] | None = None,
    regions: Sequence[Region] = (ARENA,),
    streamed_bytes: Mapping[int, int] | None = None,
    effort: Effort | None = None,
    costs: Callable[[Room], Mapping[str, int]] | None = None,
) -> Layout:
    """Everything placed. Deterministic.

    outside: as of `work_of`. streamed_bytes: by call, of its tables; None: they lie elsewhere. effort: how long
    addresses may be searched for. costs: of a room by region, where there are several.

    Raises DoesNotFitError.
    """
    outside = {*program.inputs, *program.outputs} if outside is None else outside
    lives = _lives(program, work, outside)
    wishes, fixed = _wishes(program, work, outside, lives)
    inner = {name: life for name, life in lives.items() if name not in fixed}
    sharings = granted(inner, wishes)
    joined = {wish.inner for wish in sharings if not wish.over}
    values = [Room(name, life.count, life.first_step, life.last_step, "activation") for name, life in inner.items()]
    scratches = [
        Room(_scratch_name(step), call.scratch_bytes, step, step, "scratch")
        for step, call in enumerate(work.calls)
        if call.scratch_bytes
    ]
    streams = [Room(f"weights of call {s}", size, s, s, "weights") for s, size in (streamed_bytes or {}).items()]
    rooms = (*values, *scratches, *streams)
    placed = [(room, {} if costs is None else costs(room)) for room in rooms]
    placement = _placed(placed, sharings, _diagonals(work, inner, joined), regions, effort)
    offsets = {name: spot.offset_bytes for name, spot in placement.places.items()}
    places = _places(program, work, outside, placement, {*fixed, *joined}, regions[0].name)
    dropped = frozenset(step for step, join in work.joins.items() if join.source in joined or join.source in fixed)
    scratch, weights = ({room.first_step: offsets[room.name] for room in kind} for kind in (scratches, streams))
    return Layout(places, scratch, weights, dropped, rooms, sharings, placement)


def _lives(program: AffineProgram, work: Work, outside: Collection[str]) -> dict[str, Life]:
    """Sizes in bytes of the values that lie in regions, and the calls from the first to the last that needs them."""
    steps: dict[str, list[int]] = {}
    for step, call in enumerate(work.calls):
        for name in (*call.reads, call.write):
            root = work.root(name)
            if root not in outside:
                steps.setdefault(root, [step, step])[1] = step
    for name in (*program.inputs, *program.outputs):
        root = work.root(name)
        if root not in outside:
            life = steps.setdefault(root, [0, 0])
            # Inputs are there before the first call, and outputs are fetched after the last.
            life[0] = 0 if name in program.inputs else life[0]
            life[1] = len(work.calls) if name in program.outputs else life[1]
    return {name: Life(program.tensors[name].size_bytes, *life) for name, life in steps.items()}


def _wishes(
    program: AffineProgram, work: Work, outside: Collection[str], lives: Mapping[str, Life]
) -> tuple[list[Wish], dict[str, Join]]:
    """What could lie inside other values, and the parts that the caller's arrays hold in any case, by name."""
    strided = {call.write for call in work.calls if call.strided}
    readers: dict[str, list[str]] = {}
    for op in program.ops:
        for name in op.inputs:
            readers.setdefault(name, []).append(op.output)

    def may_join(join: Join) -> bool:
        alone = readers.get(join.source, []) == [join.output] and work.root(join.source) == join.source
        written = [step for step, call in enumerate(work.calls) if call.write == join.source]
        in_parts = len(written) == 1 or not any(step in work.joins for step in written)
        return join.joins and alone and join.source in strided and join.source in lives and in_parts

    wishes, fixed = [], dict[str, Join]()
    for step, call in enumerate(work.calls):
        join = work.joins.get(step)
        if join is not None and may_join(join):
            outer = work.root(join.output)
            if outer in outside:
                fixed[join.source] = join
            else:
                offset = join.offset * program.tensors[join.source].format.bytes
                wishes.append(Wish(join.source, outer, offset, step, over=False))
        elif join is None:
            wishes += _over(call, step, work, lives)
    return wishes, fixed


def _places(
    program: AffineProgram,
    work: Work,
    outside: Collection[str],
    placement: Placement,
    parts: Collection[str],
    first_region: str,
) -> dict[str, Place]:
    """Where every tensor lies. parts: those that lie inside a concatenation."""
    joins = {join.source: join for join in work.joins.values()}
    places = {}
    for name, tensor in program.tensors.items():
        _, channels = pixels_and_channels(tensor.shape)
        root = work.root(name)
        if name in parts:
            join = joins[name]
            outer = work.root(join.output)
            _, stride = pixels_and_channels(program.tensors[join.output].shape)
            if outer in outside:
                places[name] = Place(outer, join.offset * tensor.format.bytes, stride)
            else:
                spot = placement.places[name]
                places[name] = Place("", spot.offset_bytes, stride, spot.region)
        elif root in outside:
            places[name] = Place(root, 0, channels)
        elif root in placement.places:
            spot = placement.places[root]
            places[name] = Place("", spot.offset_bytes, channels, spot.region)
        else:  # nothing computes or reads it
            places[name] = Place("", 0, channels, first_region)
    return places


def _over(call: Call, step: int, work: Work, lives: Mapping[str, Life]) -> list[Wish]:
    """Operands that the call may write its result over."""
    outer = work.root(call.write)
    reads = [work.root(name) for name in call.reads]
    wishes = []
    for index in sorted(call.in_place):
        name = reads[index]
        if outer in lives and name in lives and name != outer and lives[name].count == lives[outer].count:
            beside = tuple(other for i, other in enumerate(reads) if i != index and other != name)
            if reads.count(name) == 1 or all(i in call.in_place for i, other in enumerate(reads) if other == name):
                wishes.append(Wish(name, outer, 0, step, over=True, beside=beside))
    return wishes


def _diagonals(work: Work, inner: Mapping[str, Life], joined: set[str]) -> list[Diagonal]:
    diagonals = []
    for call in work.calls:
        if call.accesses is None:
            continue
        read, write = work.root(call.reads[0]), work.root(call.write)
        usable = read in inner and write in inner and read != write and call.write not in joined
        if usable and inner[read].last_step == inner[write].first_step:
            diagonals.append(Diagonal(read, write, call.accesses.distance_bytes))
    return diagonals


def _scratch_name(step: int) -> str:
    return f"scratch of call {step}"


def _placed(
    rooms: Sequence[tuple[Room, Mapping[str, int]]],
    sharings: Sequence[Wish],
    diagonals: Sequence[Diagonal],
    regions: Sequence[Region],
    effort: Effort | None,
) -> Placement:
    problem = Problem(
        tuple(regions),
        tuple(
            Request(room.name, room.size_bytes, room.first_step, room.last_step, costs=costs) for room, costs in rooms
        ),
        tuple(Alias(wish.inner, wish.outer, wish.offset) for wish in sharings),
        tuple(diagonals),
    )
    placement = place(problem, effort)
    check_placement(problem, placement)
    return placement
