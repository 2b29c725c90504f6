"""Cuts: the dynamic program against all cuts, reasons for ends, orders."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nnkit_tpu.chips import CHIPS
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import (
    Ban,
    Interval,
    base_groups,
    global_cycles,
    is_tried,
    overlap_cycles,
    plan_groups,
    quick_interval,
    structure,
)
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.orders import topological_orders


def all_cuts(length: int) -> Iterator[list[tuple[int, int]]]:
    for mask in range(1 << (length - 1)):
        edges = [0, *(i + 1 for i in range(length - 1) if mask >> i & 1), length]
        yield list(itertools.pairwise(edges))


def cost_of(graph: GroupGraph, cuts: list[tuple[int, int]], model: CostModel) -> int | None:
    """Cycles of these cuts, overlaps of neighbours taken off; None where a group does not fit."""
    total, before = 0, None
    for first, last in cuts:
        interval = None
        if last - first == 1:
            total += global_cycles(graph, graph.ops[first], model)
        else:
            found = quick_interval(graph, graph.ops[first:last], model)
            if not isinstance(found, Interval):
                return None
            interval = found
            total += found.cycles - (overlap_cycles(before, found) if before is not None else 0)
        before = interval
    return total


@pytest.mark.parametrize("lane_bytes", [2048, 4096, 8192, 32768])
def test_cuts_cost_the_least_of_all(branched: GroupGraph, lane_bytes: int) -> None:
    model = CostModel(replace(CHIPS["cv181x"], lane_bytes=lane_bytes))
    least = min(c for cuts in all_cuts(len(branched.ops)) if (c := cost_of(branched, cuts, model)) is not None)
    # Slack and exact placement only improve on the shortest schedules that cuts are judged by.
    plan = plan_groups(branched, model, orders=False)
    assert plan.cycles <= least
    chosen, at = [], 0
    for part in plan.parts:
        size = len(part.ops) if hasattr(part, "ops") else 1
        chosen.append((at, at + size))
        at += size
    assert cost_of(branched, chosen, model) == least


def test_every_end_has_a_reason(builder: Callable[..., Any]) -> None:
    b = builder((1, 8, 32, 32))
    b.conv("a", "x", 8)
    b.conv("b", "a", 8)
    b.add("turn", "permute", "b", (1, 32, 32, 8), order=(0, 2, 3, 1), not_local="permute works on global memory")
    b.conv("c", "turn", 8)
    b.conv("d", "c", 8)
    graph = b.graph()
    plan = plan_groups(graph, CostModel(CHIPS["bm1684x"]), orders=False)
    assert base_groups(graph) == ((0, 2), (3, 5))
    assert [len(group.ops) for group in plan.groups] == [2, 2]
    (end,) = [boundary for boundary in plan.boundaries if boundary.after == "b"]
    assert (end.rule, end.before) == ("not local", "turn")
    assert end.reason == "turn: permute works on global memory"


def test_a_group_ends_where_memory_or_overlap_or_cost_says_so(branched: GroupGraph) -> None:
    rules = set()
    for lane_bytes in (1024, 2048, 4096):
        plan = plan_groups(branched, CostModel(replace(CHIPS["cv181x"], lane_bytes=lane_bytes)), orders=False)
        for boundary in plan.boundaries:
            rules.add(boundary.rule)
            if boundary.rule == "cost":
                joined, apart = (int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", boundary.reason))
                assert apart <= joined
            else:
                assert boundary.reason.startswith("as one group: ")
    assert rules <= {"cost", "local memory", "overlap", "not sliceable", "too few rows"}
    assert {"local memory", "overlap"} & rules


def test_weights_of_the_next_group_load_under_the_last_op() -> None:
    before = Interval(1000, None, idle_tail=300, free_bytes=512, head=0, head_bytes=0)  # type: ignore[arg-type]
    after = Interval(1000, None, idle_tail=0, free_bytes=0, head=200, head_bytes=400)  # type: ignore[arg-type]
    assert overlap_cycles(before, after) == 200
    assert overlap_cycles(before, replace(after, head_bytes=600)) == 0
    assert overlap_cycles(replace(before, idle_tail=50), after) == 50


def test_equal_structures_share_a_key(builder: Callable[..., Any]) -> None:
    b = builder((1, 8, 16, 16))
    for index in range(4):
        b.conv(f"c{index}", f"c{index - 1}" if index else "x", 8)
    b.conv("wide", "c3", 16)
    graph = b.graph()
    assert structure(graph, graph.ops[0:2]) == structure(graph, graph.ops[1:3])
    assert structure(graph, graph.ops[0:2]) != structure(graph, graph.ops[3:5])


def test_orders_are_topological_and_differ(branched: GroupGraph) -> None:
    orders = topological_orders(branched)
    assert len(orders) > 1
    for order in orders.values():
        again = branched.reordered(order)  # raises where an op comes before its input
        assert sorted(op.name for op in again.ops) == sorted(op.name for op in branched.ops)


def test_another_order_can_be_better_and_is_named(builder: Callable[..., Any]) -> None:
    # Breadth first keeps two wide branches alive; depth first shrinks one before it starts the other.
    b = builder((1, 8, 24, 24))
    b.conv("left", "x", 64)
    b.conv("right", "x", 64)
    b.conv("left2", "left", 8)
    b.conv("right2", "right", 8)
    b.add("sum", "binary", "left2 right2", (1, 8, 24, 24), function="add")
    graph = b.graph()
    model = CostModel(replace(CHIPS["cv181x"], lane_bytes=8192))
    given, best = plan_groups(graph, model, orders=False), plan_groups(graph, model)
    assert best.cycles < given.cycles
    assert best.order != "given"


def test_banned_groups_are_not_used(branched: GroupGraph) -> None:
    model = CostModel(CHIPS["bm1684x"])
    whole = tuple(op.name for op in branched.ops)
    assert [tuple(op.name for op in group.ops) for group in plan_groups(branched, model, orders=False).groups] == [
        whole
    ]
    plan = plan_groups(branched, model, orders=False, bans=[Ban(frozenset(whole))])
    assert max(len(group.ops) for group in plan.groups) == len(whole) - 1
    plan = plan_groups(branched, model, orders=False, bans=[Ban(frozenset(whole), 0.5)])
    assert all(2 * len(group.ops) < len(whole) for group in plan.groups)
    assert plan.groups


@pytest.mark.parametrize("exact", [False, True])
def test_the_work_grows_with_the_network_and_not_with_its_cube(exact: bool) -> None:
    """Ops of all intervals that are tried, by op of the network."""

    def work(length: int) -> float:
        tried = (
            last - first
            for first in range(length)
            for last in range(first + 2, length + 1)
            if is_tried(first, last, length, exact=exact)
        )
        return sum(tried) / length

    assert work(199) < (4656 if exact else 1.6 * 528)  # 1 + 2 + ... + 96 and 1 + ... + 32 ops
    assert work(250) < (2.1 if exact else 1.6) * 528
    assert work(500) < (3.0 if exact else 2.2) * 528
    assert is_tried(3, 3 + 33, 500, exact=exact) == exact
    assert not is_tried(4, 4 + 33, 500, exact=exact)
    assert is_tried(0, 500, 500, exact=exact)
    assert is_tried(3, 3 + 32, 500, exact=exact)
    assert not is_tried(3, 3 + 97, 500, exact=exact)
    assert is_tried(8, 8 + 104, 500, exact=exact)
