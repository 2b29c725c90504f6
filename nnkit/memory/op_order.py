"""The order of ops with the least peak: exact where the graph has few cuts, a beam where it has many.

The peak of an order is the most bytes live at any op: all values that were written and are still to be read, the
graph's inputs until their last reader, its outputs to the end, the op's own outputs and its scratch. An op may write
over inputs that die at it (`OpNode.overwrites`); then only what its output takes beyond them counts.

Exact search: a state is the set of ops that ran (a downset of the graph), and what is live follows from it. States
are expanded in the order of their peaks so far, so that the first complete one is the best (a shortest path by its
largest edge). If an op can run without raising a state's peak and without leaving more bytes live than before, it
runs at once: any completion that runs it later stays as good when it runs now, since everything afterwards finds no
more bytes live. Chains and reductions collapse that way; the number of states is about the product of the branches'
lengths.

Where the limit of states is met, the smallest peak among the open states is a lower bound of all orders.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.errors import InternalError

OrderMethod: TypeAlias = Literal["given", "exact", "beam"]


@dataclass(frozen=True)
class OpNode:
    """An op of the graph. overwrites: inputs whose bytes its outputs may take if they die at it."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scratch_bytes: int = 0
    overwrites: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpGraph:
    """Ops in the given order, which must be one that runs.

    sizes_bytes: of every value. inputs: live from the start. outputs: live to the end.

    Raises:
        InternalError: a value is read before it is written, is written twice, or has no size.
    """

    ops: tuple[OpNode, ...]
    sizes_bytes: Mapping[str, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes_bytes", MappingProxyType(dict(self.sizes_bytes)))
        written = set(self.inputs)
        for op in self.ops:
            for name in op.inputs:
                if name not in written:
                    raise InternalError(f"{name!r} is read before it is written", where=op.name)
            for name in op.outputs:
                if name in written:
                    raise InternalError(f"{name!r} is written twice", where=op.name)
                written.add(name)
        for name in (*written, *self.outputs):
            if name not in self.sizes_bytes or name not in written:
                raise InternalError("a value has no size, or is never written", where=name)


@dataclass(frozen=True)
class OpOrder:
    """order: indices into the graph's ops. states: sets of ops that were looked at.

    lower_bound_bytes: no order's peak is below it.
    """

    order: tuple[int, ...]
    peak_bytes: int
    given_peak_bytes: int
    lower_bound_bytes: int
    method: OrderMethod
    states: int

    @property
    def proven_optimal(self) -> bool:
        """Whether no order has a smaller peak."""
        return self.peak_bytes == self.lower_bound_bytes


def order_peak(graph: OpGraph, order: Sequence[int]) -> int:
    """Most bytes live at any op when the ops run in `order`.

    Raises:
        InternalError: `order` is no permutation of the ops, or runs one before its inputs are there.
    """
    walk = _Walk(graph)
    state = walk.start
    if sorted(order) != list(range(len(graph.ops))):
        raise InternalError("the order is no permutation of the ops")
    for op in order:
        if not state.ready >> op & 1:
            raise InternalError("the order runs it before its inputs are there", where=graph.ops[op].name)
        state = walk.run(state, op)
    return state.peak


def find_order(graph: OpGraph, max_states: int = 20_000, beam_width: int = 32) -> OpOrder:
    """An order whose peak is no larger than the given order's. Deterministic; the given order where none is better.

    Args:
        max_states: limit of the exact search.
        beam_width: states kept after each op, where the exact search met its limit.
    """
    count = len(graph.ops)
    given = tuple(range(count))
    walk = _Walk(graph)
    given_peak = order_peak(graph, given)
    bound = walk.largest_op_bytes
    if given_peak == bound:
        return OpOrder(given, given_peak, given_peak, bound, "given", 0)
    least, bound, states = _exact(walk, given_peak, max_states)
    if least is not None:
        order = _trace(least)
        if least.peak < given_peak:
            return OpOrder(order, least.peak, given_peak, least.peak, "exact", states)
        return OpOrder(given, given_peak, given_peak, given_peak, "given", states)
    bound = max(bound, walk.largest_op_bytes)
    best = _beam(walk, beam_width)
    if best.peak < given_peak:
        return OpOrder(_trace(best), best.peak, given_peak, min(bound, best.peak), "beam", states)
    return OpOrder(given, given_peak, given_peak, min(bound, given_peak), "given", states)


@dataclass(frozen=True)
class _State:
    """done, ready: bit sets of ops. live: bytes live after them. peak: most so far. before, op: the way here."""

    done: int
    ready: int
    live: int
    peak: int
    before: _State | None
    op: int


class _Walk:
    """The graph as bit sets."""

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self.count = len(graph.ops)
        writer = {name: index for index, op in enumerate(graph.ops) for name in op.outputs}
        self.readers: dict[str, int] = dict.fromkeys(graph.sizes_bytes, 0)
        self.needs = [0] * self.count
        self.next: list[list[int]] = [[] for _ in graph.ops]
        for index, op in enumerate(graph.ops):
            for name in set(op.inputs):
                self.readers[name] |= 1 << index
                if name in writer and not self.needs[index] >> writer[name] & 1:
                    self.needs[index] |= 1 << writer[name]
                    self.next[writer[name]].append(index)
        self.kept = set(graph.outputs)
        ready = sum(1 << index for index in range(self.count) if not self.needs[index])
        live = sum(graph.sizes_bytes[name] for name in set(graph.inputs))
        # Inputs live from the first op on, whoever reads them, or nobody.
        unread = sum(graph.sizes_bytes[n] for n in set(graph.inputs) if not self.readers[n] and n not in self.kept)
        self.start = _State(0, ready, live, 0, None, -1)
        self.unread = unread

    @property
    def largest_op_bytes(self) -> int:
        """What some op needs whatever the order: its inputs, its outputs and scratch, the graph's inputs at first."""
        sizes, best = self.graph.sizes_bytes, self.start.live
        for op in self.graph.ops:
            held = sum(sizes[name] for name in set(op.inputs))
            best = max(best, held + op.scratch_bytes + self._grown(op, (1 << self.count) - 1))
        return best

    def _grown(self, op: OpNode, done: int) -> int:
        """Bytes that the op's outputs take beyond the dying inputs that they overwrite; `done` includes the op."""
        sizes = self.graph.sizes_bytes
        written = sum(sizes[name] for name in op.outputs)
        freed = sum(sizes[name] for name in set(op.overwrites) if self._dies(name, done))
        return max(0, written - freed)

    def _dies(self, name: str, done: int) -> bool:
        return name not in self.kept and not self.readers[name] & ~done

    def run(self, state: _State, index: int) -> _State:
        """The state after one more op."""
        op = self.graph.ops[index]
        sizes = self.graph.sizes_bytes
        bit = 1 << index
        done = state.done | bit
        held = state.live + op.scratch_bytes + self._grown(op, done)
        live = state.live - (self.unread if not state.done else 0)
        live += sum(sizes[name] for name in op.outputs if self.readers[name] or name in self.kept)
        live -= sum(sizes[name] for name in set(op.inputs) if self._dies(name, done))
        ready = state.ready & ~bit
        for later in self.next[index]:
            if not self.needs[later] & ~done:
                ready |= 1 << later
        return _State(done, ready, live, max(state.peak, held), state, index)

    def children(self, state: _State) -> list[_State]:
        """The next states; only one where an op can run at no cost."""
        children = []
        for index in _bits(state.ready):
            child = self.run(state, index)
            if child.peak <= state.peak and child.live <= state.live:
                return [child]
            children.append(child)
        return children


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _exact(walk: _Walk, given_peak: int, max_states: int) -> tuple[_State | None, int, int]:
    """(the best complete state or None at the limit, a lower bound, states)."""
    seen: set[int] = set()
    open_states: list[tuple[int, int, int, _State]] = [(0, 0, 0, walk.start)]
    pushed = 0
    while open_states:
        peak, left, _, state = heapq.heappop(open_states)
        if state.done in seen:
            continue
        seen.add(state.done)
        if -left == walk.count:
            return state, state.peak, len(seen)
        if len(seen) > max_states:
            return None, peak, len(seen)
        for child in walk.children(state):
            if child.done not in seen and child.peak <= given_peak:
                pushed += 1
                heapq.heappush(open_states, (child.peak, left - 1, pushed, child))
    return None, given_peak, len(seen)  # not reached: the given order is among the paths


def _beam(walk: _Walk, width: int) -> _State:
    states = [walk.start]
    for _ in range(walk.count):
        best: dict[int, _State] = {}
        for state in states:
            for child in walk.children(state):
                other = best.get(child.done)
                if other is None or child.peak < other.peak:
                    best[child.done] = child
        states = sorted(best.values(), key=lambda s: (s.peak, s.live, s.done))[:width]
    return min(states, key=lambda s: s.peak)


def _trace(state: _State) -> tuple[int, ...]:
    order = []
    while state.before is not None:
        order.append(state.op)
        state = state.before
    return tuple(reversed(order))
