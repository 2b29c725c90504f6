"""Slices: the published examples of the overlap rule, halos through branches, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.slices import (
    Refusal,
    SliceCount,
    SlicePlan,
    even_spans,
    repeats_too_much,
    slice_counts,
    slice_group,
)


def test_sixty_repeated_rows_of_a_hundred_fail() -> None:
    assert repeats_too_much((Span(0, 80), Span(20, 100)), 100)


def test_forty_repeated_rows_of_a_hundred_pass() -> None:
    assert not repeats_too_much((Span(0, 60), Span(40, 100)), 100)
    assert not repeats_too_much((Span(0, 60), Span(20, 100)), 100)


def test_more_than_two_slices_add_up() -> None:
    # 2 * sum(lengths) > 3 * h: 150 of 100 rows pass, 151 fail.
    assert not repeats_too_much((Span(0, 50), Span(25, 75), Span(50, 100)), 100)
    assert repeats_too_much((Span(0, 50), Span(24, 75), Span(50, 100)), 100)


def test_the_rule_is_applied_to_every_tensor(builder: Callable[..., Any]) -> None:
    b = builder((1, 4, 16, 8))
    for index in range(6):
        b.conv(f"c{index}", f"c{index - 1}" if index else "x", 4)
    graph = b.graph()
    refusal = slice_group(graph, graph.ops, SliceCount(1, 4))
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "overlap"
    # x: 4 + 6 rows at the borders, 4 + 12 in the middle, clipped to the tensor: 10 + 14 + 14 + 10 of 16.
    assert isinstance(slice_group(graph, graph.ops[-1:], SliceCount(1, 4)), SlicePlan)


def test_halos_grow_backwards(builder: Callable[..., Any]) -> None:
    b = builder((1, 4, 64, 8))
    b.conv("a", "x", 4)
    b.conv("b", "a", 4, stride=2)
    graph = b.graph()
    plan = slice_group(graph, graph.ops, SliceCount(1, 2))
    assert isinstance(plan, SlicePlan)
    assert [part.rows for part in plan.parts["b"]] == [Span(0, 16), Span(16, 32)]
    assert [part.rows for part in plan.parts["a"]] == [Span(0, 32), Span(31, 64)]
    assert [part.rows for part in plan.parts["x"]] == [Span(0, 33), Span(30, 64)]


def test_branches_hold_the_hull_and_store_their_share(branched: GroupGraph) -> None:
    plan = slice_group(branched, branched.ops, SliceCount(1, 2))
    assert isinstance(plan, SlicePlan)
    assert [part.rows for part in plan.shares["down"]] == [Span(0, 5), Span(5, 10)]
    assert [part.rows for part in plan.shares["out"]] == [Span(0, 10), Span(10, 20)]
    # "wide" reaches two rows further than "dw": the sum holds the wider need.
    assert [part.rows for part in plan.parts["sum"]] == [Span(0, 12), Span(8, 20)]


def test_a_global_pool_is_not_cut(builder: Callable[..., Any]) -> None:
    b = builder((1, 4, 7, 7))
    b.conv("c", "x", 8)
    b.pool("g", "c", 7, 1, kind="average_pool")
    graph = b.graph()
    refusal = slice_group(graph, graph.ops, SliceCount(1, 2))
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "too few rows"
    assert refusal.where == "g"


def test_batch_is_cut_first(builder: Callable[..., Any]) -> None:
    b = builder((4, 4, 6, 6))
    b.conv("c", "x", 8)
    graph = b.graph()
    counts = list(slice_counts(graph, graph.ops))
    assert counts[:4] == [(1, 1), (2, 1), (4, 1), (4, 2)]
    assert counts[-1] == (4, 6)
    plan = slice_group(graph, graph.ops, SliceCount(4, 2))
    assert isinstance(plan, SlicePlan)
    assert plan.parts["c"][3] == (Span(1, 2), Span(3, 6))


def test_even_spans() -> None:
    assert even_spans(10, 3) == (Span(0, 4), Span(4, 7), Span(7, 10))
