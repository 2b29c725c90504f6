"""Slices: the published examples of the overlap rule, halos through branches, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
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


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_graphs_hold_the_rows_that_are_read(data: st.DataObject, builder: Callable[..., Any]) -> None:
    """Rows that an op reads are counted from its definition, tap by tap; what is stored makes up every output."""
    images, height, width = (data.draw(st.integers(low, high)) for low, high in ((1, 3), (8, 28), (3, 9)))
    b = builder((images, data.draw(st.integers(1, 9)), height, width))
    names = ["x"]
    for index in range(data.draw(st.integers(2, 7))):
        source = data.draw(st.sampled_from(names[-3:]))
        kind = data.draw(st.sampled_from(("conv", "pool", "unary", "sum", "concat", "upsample")))
        name, shape = f"t{index}", b.tensors[source].shape
        alike = [n for n in names if b.tensors[n].shape == shape]
        if kind == "conv" or (kind == "pool" and min(shape[2:]) < 4):
            kernel, dilation = data.draw(st.sampled_from(((1, 1), (3, 1), (3, 2), (5, 1))))
            stride = data.draw(st.sampled_from((1, 1, 2)))
            b.conv(name, source, data.draw(st.integers(1, 20)), kernel, stride, dilation=dilation)
        elif kind == "pool":
            b.pool(name, source, 3, 2, data.draw(st.sampled_from(("max_pool", "average_pool"))), 1)
        elif kind == "unary":
            b.add(name, "unary", source, shape)
        elif kind == "sum":
            b.add(name, "binary", f"{source} {data.draw(st.sampled_from(alike))}", shape, function="add")
        elif kind == "concat":
            other = data.draw(st.sampled_from(alike))
            b.add(name, "concat", f"{source} {other}", (shape[0], 2 * shape[1], *shape[2:]))
        else:
            b.add(name, "upsample", source, (*shape[:2], 2 * shape[2], 2 * shape[3]), scale=(2.0, 2.0))
        names.append(name)
    read = {name for op in b.ops for name in op.inputs}
    graph = b.graph(*[op.output for op in b.ops if op.output not in read])
    for count in list(slice_counts(graph, graph.ops))[:8]:
        plan = slice_group(graph, graph.ops, count)
        if isinstance(plan, Refusal):
            continue
        for op in graph.ops:
            for made, *held in zip(plan.parts[op.output], *(plan.parts[n] for n in op.inputs), strict=True):
                for name, part in zip(op.inputs, held, strict=True):
                    rows = {row for at in range(*made.rows) for row in _rows_read(op, at)}
                    rows &= set(range(graph.tensors[name].shape[2]))
                    assert rows <= set(range(*part.rows)), (op.name, name)
                    assert part.images == made.images
        for name, shares in plan.shares.items():
            stored = [(i, row) for share in shares for i in range(*share.images) for row in range(*share.rows)]
            whole = graph.tensors[name].shape
            assert sorted(stored) == [(i, row) for i in range(whole[0]) for row in range(whole[2])]


def _rows_read(op: GroupOp, row: int) -> list[int]:
    """Rows of an op's input that one row of its output is made of, padding included."""
    if op.kind == "upsample":
        return [row // 2]
    if op.window is None:
        return [row]
    w = op.window
    return [row * w.stride_h - w.pad_top + tap * w.dilation_h for tap in range(w.kernel_h)]
