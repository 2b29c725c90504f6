"""Topological orders of a graph: which branch comes first decides what must be kept and which groups there are."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping
from types import MappingProxyType

from nnkit_tpu.layer_group.model import GroupGraph, GroupOp


def topological_orders(graph: GroupGraph) -> Mapping[str, tuple[str, ...]]:
    """Distinct orders by name; "given", the graph's own, first."""
    orders = {"given": tuple(op.name for op in graph.ops)}
    for name, choose in (
        ("breadth first", _breadth_first),
        ("depth first", _depth_first),
        ("last branch first", _last_branch),
        ("least live bytes", _least_live),
    ):
        order = _ordered(graph, choose)
        if order not in orders.values():
            orders[name] = order
    return MappingProxyType(orders)


_Choice = Callable[[GroupGraph, list[GroupOp], dict[str, int]], GroupOp]


def _ordered(graph: GroupGraph, choose: _Choice) -> tuple[str, ...]:
    """Take, one after another, the op that `choose` picks among those whose inputs are there."""
    at = dict.fromkeys(graph.inputs, 0)  # tensor -> when it came to be
    place = {op.name: index for index, op in enumerate(graph.ops)}
    missing = {op.name: len(set(op.inputs) - set(at)) for op in graph.ops}
    ready = [op for op in graph.ops if not missing[op.name]]
    order: list[str] = []
    while ready:
        op = choose(graph, ready, at)
        ready.remove(op)
        at[op.output] = len(order) + 1
        order.append(op.name)
        for reader in graph.readers.get(op.output, ()):
            missing[reader.name] -= 1
            if not missing[reader.name]:
                insort(ready, reader, key=lambda each: place[each.name])
    return tuple(order)


def _breadth_first(graph: GroupGraph, ready: list[GroupOp], at: dict[str, int]) -> GroupOp:
    """The op whose inputs are oldest."""
    return min(ready, key=lambda op: max((at[name] for name in op.inputs), default=0))


def _depth_first(graph: GroupGraph, ready: list[GroupOp], at: dict[str, int]) -> GroupOp:
    """The op that goes on with the newest value."""
    return max(ready, key=lambda op: max((at[name] for name in op.inputs), default=0))


def _last_branch(graph: GroupGraph, ready: list[GroupOp], at: dict[str, int]) -> GroupOp:
    """Depth first, and of several branches the one that the given order has last."""
    newest = max(max((at[name] for name in op.inputs), default=0) for op in ready)
    return [op for op in ready if max((at[name] for name in op.inputs), default=0) == newest][-1]


def _least_live(graph: GroupGraph, ready: list[GroupOp], at: dict[str, int]) -> GroupOp:
    """The op after which the least is live: its output, less the inputs that nobody else waits for."""

    def growth(op: GroupOp) -> int:
        dying = [n for n in set(op.inputs) if all(r.name == op.name or r.output in at for r in graph.readers[n])]
        return graph.tensors[op.output].size_bytes - sum(graph.tensors[n].size_bytes for n in dying)

    return min(ready, key=growth)
