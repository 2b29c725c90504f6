"""From a segment's graph to what its C files hold: calls in order, buffers with lifetimes, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from nnkit.c.float.calls import Argument, Call, Code, Known, Read, Scratch, Struct, Table, View, Write, copy, scalar
from nnkit.c.float.catalogue import code_of
from nnkit.c.float.fusing import clip_struct, fused_activations
from nnkit.cpu_segments.arena import VALUE_BYTES, Arena, Buffer, Memories, plan_arena
from nnkit.cpu_segments.constants import Constant, Constants
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.graph.view import GraphView, Node
from nnkit.memory.accesses import Accesses
from nnkit.memory.problem import Diagonal
from nnkit.memory.sharing import Life, Wish, granted

_Work = list[tuple[Node | None, list[Call]]]
"""Nodes in order with their calls; None: copies to outputs that another value holds."""


TablePlaces = Callable[[Iterable[tuple[str, bytes]]], Mapping[bytes, str]]
"""The memory of each table of weights, by its content. It is given every use of one: the layer, by what it gives,
`""` for none, and the table's content."""


@dataclass(frozen=True)
class Result:
    """A value as a step leaves it: its name, C of a pointer to it, and its number of values."""

    name: str
    pointer: str
    count: int


@dataclass(frozen=True)
class Touched:
    """The values that a call reads and those that it writes; accesses: as `Call`."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    accesses: Accesses | None = None


@dataclass(frozen=True)
class Step:
    """A node's calls as C statements, none where its values lie in place already; and what they compute.

    calls: one for each step of time that it takes, those included that need no statement.
    """

    layer: str
    op_type: str
    statements: tuple[str, ...]
    calls: tuple[Touched, ...] = ()
    results: tuple[Result, ...] = ()


@dataclass(frozen=True)
class Names:
    """What the C calls things.

    sources, targets: the segment's inputs and outputs, by value; an input without a name lies in the working memory,
    is written before the first call, and may be overwritten. weights: a pointer to all constant floats, one table
    behind the other; None: each table is a constant array of its own.
    """

    sources: Mapping[str, str]
    targets: Mapping[str, str]
    weights: str | None = None


@dataclass(frozen=True, eq=False)
class Assembly:
    """All that the templates need. kernels: stems of the C files that are called. own: texts of those of the user's;
    prototypes: of the functions in them.

    buffers: what lies in the arena, with lifetimes in calls. sharings: which of them lie inside others. roots: by
    view, the value that it shows. weights: the tables behind `Names.weights`, float32, by memory.
    """

    steps: tuple[Step, ...]
    constants: tuple[Constant, ...]
    kernels: tuple[str, ...]
    arena: Arena
    buffers: tuple[Buffer, ...]
    sharings: tuple[Wish, ...]
    roots: Mapping[str, str]
    weight_bytes: int
    weights: Mapping[str, NDArray[np.float32]]
    own: Mapping[str, str]
    prototypes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Values:
    """Where the segment's values are.

    roots: by view, the value that it shows. known: values worked out when the code is generated. sources, targets: C
    names of the segment's inputs and of its outputs.
    """

    graph: GraphView
    roots: Mapping[str, str]
    known: Mapping[str, NDArray[np.float32]]
    sources: Mapping[str, str]
    targets: Mapping[str, str]

    def root(self, value: str) -> str:
        """The value whose bytes hold this one."""
        return self.roots.get(value, value)

    def constant(self, root: str) -> NDArray[np.float32] | None:
        """A value that is known when the code is generated; None for any other."""
        if root in self.known:
            return self.known[root]
        array = self.graph.constant(root)
        return None if array is None else np.ascontiguousarray(array, np.float32)

    def count(self, root: str) -> int:
        """How many numbers it has."""
        return prod(self.graph.shape(root))

    def is_inner(self, root: str) -> bool:
        """Whether it lies in the working memory."""
        ends = root in self.sources or (root in self.targets and root not in self.roots)
        return not (ends or root in self.known or root in self.graph.constants)


def region_pointer(region: str) -> str:
    """What the calls name the pointer to the floats of a memory; of the only one, where it is empty."""
    return f"nnkit_in_{region}" if region else "nnkit_floats"


def assemble(
    graph: GraphView, names: Names, memories: Memories | None = None, table_places: TablePlaces | None = None
) -> Assembly:
    """The code of every node, the memory planned, and the calls written.

    memories: for inner values, where there are several; table_places: likewise for weights.

    Raises:
        ModelError: operators that have no C code, all of them with their reasons.
        DoesNotFitError: the memories are too small.
    """
    values, work = _scheduled(graph, names)
    buffers = _buffers(values, work)
    sharings = granted(
        {b.id: Life(b.count, b.first_step, b.last_step) for b in buffers if b.kind == "float"}, _wishes(values, work)
    )
    arena = plan_arena(buffers, sharings, _diagonals(values, work), memories, _moved_bytes(values, work))
    in_place = frozenset((wish.inner, wish.step) for wish in sharings if not wish.over)
    constants = Constants(names.weights, table_places(_table_uses(values, work)) if table_places else {})
    steps = tuple(_Writer(values, arena, in_place, constants).steps(work))
    calls = [call for _, group in work for call in group]
    return Assembly(
        steps,
        tuple(constants.by_content.values()),
        tuple(sorted({kernel for call in calls for kernel in (call.kernel, *call.uses)})),
        arena,
        tuple(buffers),
        sharings,
        values.roots,
        constants.table_bytes,
        constants.joined(),
        {call.kernel: call.source for call in calls if call.source},
        tuple(dict.fromkeys(call.prototype for call in calls if call.prototype)),
    )


def _scheduled(graph: GraphView, names: Names) -> tuple[_Values, _Work]:
    """The nodes in order with their calls, activations fused, and copies to outputs that no call writes.

    Raises ModelError for operators that have no C code.
    """
    known: dict[str, NDArray[np.float32]] = {}
    roots: dict[str, str] = {}
    work: _Work = []
    fused = fused_activations(graph)
    taken = {activation.output for activation in fused.values()}
    for node, code in _code_of_all(graph):
        if node.output in taken:
            continue
        if isinstance(code, list) and node.output in fused:
            activation = fused[node.output]
            calls = [call.clipped(clip_struct(graph, activation), activation.output) for call in code]
            work.append((replace(node, outputs=activation.outputs), calls))
            continue
        if isinstance(code, View):
            roots[node.output] = roots.get(code.source, code.source)
        elif isinstance(code, Known):
            known[node.output] = code.array
        work.append((node, code if isinstance(code, list) else []))
    # Outputs that no call writes: views of something, known beforehand, or inputs.
    for name in graph.outputs:
        if name in roots or name in known or name in graph.constants or name in names.sources:
            work.append((None, [_copied(name, prod(graph.shape(name)))]))
    return _Values(graph, roots, known, names.sources, names.targets), work


@dataclass(frozen=True, eq=False)
class _Writer:
    """Writes calls as C. in_place: values that lie inside another already when the call of that number is reached."""

    values: _Values
    arena: Arena
    in_place: frozenset[tuple[str, int]]
    constants: Constants

    def steps(self, work: _Work) -> Iterator[Step]:
        number = 0
        for owner, calls in work:
            statements = []
            for call in calls:
                if not self._lies_there_already(call, number):
                    arguments = ", ".join(self._argument(a, number, i) for i, a in enumerate(call.arguments))
                    statements.append(f"{call.function}({arguments});")
                number += 1
            touched = tuple(_touched(call) for call in calls)
            if owner is None:
                yield Step("outputs that another value holds", "copy", tuple(statements), touched)
            else:
                yield Step(owner.name, owner.op_type, tuple(statements), touched, self._results(owner, calls))

    def _lies_there_already(self, call: Call, number: int) -> bool:
        source = call.arguments[0]
        return call.joins and isinstance(source, Read) and (self.values.root(source.value), number) in self.in_place

    def _results(self, owner: Node, calls: list[Call]) -> tuple[Result, ...]:
        return tuple(
            Result(name, self._place(name, 0, write=bool(calls)), prod(self.values.graph.shape(name)))
            for name in owner.results
            if calls or self.values.root(name) != name or name in self.values.known
        )

    def _place(self, value: str, offset: int, *, write: bool) -> str:
        """A pointer to the value, `offset` numbers into it."""
        values, start = self.values, 0
        root = values.root(value)
        array = values.constant(root)
        if write and value in values.targets:
            base = values.targets[value]
        elif array is not None:
            base = self.constants.table(array)
        elif values.is_inner(root):
            base, start = region_pointer(self.arena.regions.get(root, "")), self.arena.offsets[root]
        else:
            base = (values.sources if root in values.sources else values.targets)[root]
        return f"{base} + {start + offset}" if start + offset else base

    def _argument(self, argument: Argument, number: int, index: int) -> str:
        match argument:
            case Read(value, offset):
                return self._place(value, offset, write=False)
            case Write(value, offset):
                return self._place(value, offset, write=True)
            case Scratch(_, kind):
                name = _scratch_id(number, index)
                array = region_pointer(self.arena.regions.get(name, "")) if kind == "float" else "nnkit_ints"
                return f"{array} + {self.arena.offsets[name]}"
            case Table(numbers):
                return self.constants.table(numbers)
            case Struct():
                return self.constants.struct(argument)
        return scalar(argument)


def _touched(call: Call) -> Touched:
    reads = dict.fromkeys(each.value for each in call.arguments if isinstance(each, Read))
    writes = dict.fromkeys(each.value for each in call.arguments if isinstance(each, Write))
    return Touched(tuple(reads), tuple(writes), call.accesses)


def _table_uses(values: _Values, work: _Work) -> Iterator[tuple[str, bytes]]:
    """Each table of floats that a call reads, with its layer; those that only a trace has, with none."""
    for owner, calls in work:
        for argument in (each for call in calls for each in call.arguments):
            array = argument.values if isinstance(argument, Table) else None
            if isinstance(argument, Read):
                array = values.constant(values.root(argument.value))
            if array is not None and array.dtype == np.float32:
                yield owner.output if owner else "", array.tobytes()
        for name in owner.results if owner else ():
            if (shown := values.constant(values.root(name))) is not None:
                yield "", shown.tobytes()


def _moved_bytes(values: _Values, work: _Work) -> Mapping[str, int]:
    """Bytes of each inner value that calls read and write, once for each call that does."""
    moved: dict[str, int] = {}
    for argument in (a for _, calls in work for call in calls for a in call.arguments):
        if isinstance(argument, Read | Write) and values.is_inner(root := values.root(argument.value)):
            moved[root] = moved.get(root, 0) + values.count(root) * VALUE_BYTES
    return moved


def _wishes(values: _Values, work: _Work) -> list[Wish]:
    """Every sharing that the kernels permit, in the order of the calls."""
    wishes = []
    for step, call in enumerate(call for _, group in work for call in group):
        target = next((a for a in call.arguments if isinstance(a, Write)), None)
        if target is None or not values.is_inner(values.root(target.value)):
            continue
        outer = values.root(target.value)
        reads = [(i, values.root(a.value), a.offset) for i, a in enumerate(call.arguments) if isinstance(a, Read)]
        for position, inner, offset in reads:
            whole = not offset and values.is_inner(inner) and inner != outer
            if whole and position in call.in_place and values.count(inner) == values.count(outer):
                beside = tuple(name for i, name, start in reads if i not in call.in_place or name != inner or start)
                wishes.append(Wish(inner, outer, 0, step, over=True, beside=beside))
            elif whole and call.joins:
                wishes.append(Wish(inner, outer, target.offset, step, over=False))
    return wishes


def _diagonals(values: _Values, work: _Work) -> list[Diagonal]:
    """Every result that may be written over its input while that is read, as the kernels permit."""
    diagonals = []
    for call in (call for _, group in work for call in group):
        read = [values.root(a.value) for a in call.arguments if isinstance(a, Read)]
        target = next((values.root(a.value) for a in call.arguments if isinstance(a, Write)), "")
        source = call.arguments[0]
        if call.accesses and isinstance(source, Read) and not source.offset and read.count(read[0]) == 1:
            inner = values.is_inner(read[0]) and values.is_inner(target)
            if inner and values.count(read[0]) and values.count(target):
                diagonals.append(Diagonal(read[0], target, call.accesses.distance_bytes))
    return diagonals


def _code_of_all(graph: GraphView) -> list[tuple[Node, Code]]:
    codes: list[tuple[Node, Code]] = []
    refusals = []
    for node in graph.nodes:
        try:
            codes.append((node, code_of(graph, node)))
        except Refused as error:
            refusals.append(Refusal(node.name, node.op_type, error.reason, error.remedy))
    if refusals:
        remedy = "rewrite them with operators of docs/cpu_segments.md, or remove the tag `cpu` of those that have it"
        raise refusal_error(refusals, "cannot run on the CPU: there is no C code", remedy)
    return codes


def _scratch_id(step: int, index: int) -> str:
    return f"scratch {step}.{index}"


def _copied(name: str, count: int) -> Call:
    return copy(Read(name), Write(name), [count], [1], [1])


def _buffers(values: _Values, work: _Work) -> list[Buffer]:
    """Every inner value and scratch, with its lifetime in calls."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    buffers = []
    calls = [call for _, group in work for call in group]
    for name in values.graph.inputs:
        if name not in values.sources:
            first[name] = last[name] = 0
    for step, call in enumerate(calls):
        for index, argument in enumerate(call.arguments):
            if isinstance(argument, Scratch):
                name = _scratch_id(step, index)
                buffers.append(Buffer(name, argument.count, argument.kind, step, step, scratch=True))
            elif isinstance(argument, Read | Write):
                root = values.root(argument.value)
                if values.is_inner(root):
                    first.setdefault(root, step)
                    last[root] = step
    return buffers + [
        Buffer(name, prod(values.graph.shape(name)), "float", first[name], last[name]) for name in first
    ]
