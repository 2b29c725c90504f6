"""Op orders against all topological orders, with the live bytes counted anew."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import InternalError
from nnkit.memory.op_order import OpGraph, OpNode, find_order, order_peak


def peak_by_hand(graph: OpGraph, order: tuple[int, ...]) -> int | None:
    """Live bytes from first and last uses of the order; None where it does not run."""
    ops = [graph.ops[index] for index in order]
    last = max(len(ops) - 1, 0)
    life = {name: [0, 0] for name in graph.inputs}
    for step, op in enumerate(ops):
        for name in op.inputs:
            if name not in life:
                return None
            life[name][1] = step
        for name in op.outputs:
            life[name] = [step, step]
    for name in graph.outputs:
        life[name][1] = last
    peak = 0
    for step, op in enumerate(ops):
        live = sum(graph.sizes_bytes[name] for name, (a, b) in life.items() if a <= step <= b)
        written = sum(graph.sizes_bytes[name] for name in op.outputs)
        dying = sum(graph.sizes_bytes[n] for n in set(op.overwrites) if life[n][1] == step and n not in graph.outputs)
        peak = max(peak, live - min(written, dying) + op.scratch_bytes)
    return peak


@st.composite
def graphs(draw: st.DrawFn, max_ops: int = 6) -> OpGraph:
    sizes = {"in": draw(st.integers(1, 9))}
    names, ops = ["in"], []
    for index in range(draw(st.integers(1, max_ops))):
        inputs = tuple(draw(st.lists(st.sampled_from(names), min_size=0, max_size=2, unique=True)))
        outputs = tuple(f"t{index}{letter}" for letter in "ab"[: draw(st.integers(1, 2))])
        for name in outputs:
            sizes[name] = draw(st.integers(1, 9))
        over = tuple(name for name in inputs if draw(st.booleans()))
        ops.append(OpNode(f"op{index}", inputs, outputs, draw(st.sampled_from([0, 0, 3])), over))
        names += outputs
    outputs = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)))
    return OpGraph(tuple(ops), sizes, ("in",), outputs)


@settings(max_examples=150)
@given(graphs())
def test_the_exact_search_finds_the_best_of_all_orders(graph: OpGraph) -> None:
    peaks = {order: peak_by_hand(graph, order) for order in permutations(range(len(graph.ops)))}
    runs = {order: peak for order, peak in peaks.items() if peak is not None}
    best_order = find_order(graph)
    assert best_order.order in runs
    assert best_order.peak_bytes == runs[best_order.order] == min(runs.values())
    assert best_order.proven_optimal
    assert best_order.given_peak_bytes == runs[tuple(range(len(graph.ops)))]
    for order, peak in runs.items():
        assert order_peak(graph, order) == peak


@settings(max_examples=150)
@given(graphs(9), st.integers(0, 6), st.integers(1, 3))
def test_within_limits_it_is_never_worse_and_its_bound_holds(graph: OpGraph, max_states: int, width: int) -> None:
    best = find_order(graph).peak_bytes
    best_order = find_order(graph, max_states, width)
    assert best <= best_order.peak_bytes <= best_order.given_peak_bytes
    assert best_order.lower_bound_bytes <= best
    assert order_peak(graph, best_order.order) == best_order.peak_bytes == peak_by_hand(graph, best_order.order)


def test_a_hand_worked_branch_is_run_to_its_end_first() -> None:
    """Two branches that widen and then shrink: side by side they need 2 x 100, one after the other 100 + 1."""
    ops = (
        OpNode("wide1", ("x",), ("a",)),
        OpNode("wide2", ("x",), ("b",)),
        OpNode("thin1", ("a",), ("c",)),
        OpNode("thin2", ("b",), ("d",)),
        OpNode("join", ("c", "d"), ("y",)),
    )
    graph = OpGraph(ops, {"x": 5, "a": 100, "b": 100, "c": 1, "d": 1, "y": 1}, ("x",), ("y",))
    best_order = find_order(graph)
    assert best_order.given_peak_bytes == 205  # x, a, b at wide2
    # First branch: x, a = 105, then x, a, c = 106; second: x, c, b = 106; thin2: c, b, d = 102.
    assert (best_order.peak_bytes, best_order.lower_bound_bytes) == (106, 106)
    assert (
        best_order.order.index(2) == best_order.order.index(0) + 1
        or best_order.order.index(3) == best_order.order.index(1) + 1
    )


def test_a_given_order_that_is_as_good_is_kept() -> None:
    chain = tuple(OpNode(f"op{k}", (f"t{k}",), (f"t{k + 1}",)) for k in range(300))
    graph = OpGraph(chain, {f"t{k}": 4 for k in range(301)}, ("t0",), ("t300",))
    best_order = find_order(graph)
    assert (best_order.order, best_order.method, best_order.proven_optimal) == (tuple(range(300)), "given", True)


def test_many_parallel_branches_meet_the_limit_and_keep_a_bound() -> None:
    ops, sizes = [], {"x": 1}
    for branch in range(12):
        before = "x"
        for depth in range(3):
            name = f"b{branch}d{depth}"
            sizes[name] = 10 + (7 * branch + 5 * depth) % 11
            ops.append((depth, OpNode(name, (before,), (name,))))
            before = name
    ordered = [op for _, op in sorted(ops, key=lambda entry: entry[0])]
    ordered.append(OpNode("join", tuple(f"b{branch}d2" for branch in range(12)), ("y",)))
    graph = OpGraph(tuple(ordered), {**sizes, "y": 1}, ("x",), ("y",))
    limited = find_order(graph, max_states=50)
    assert limited.method == "beam"
    assert limited.lower_bound_bytes <= limited.peak_bytes < limited.given_peak_bytes


def test_contradictions_are_refused() -> None:
    with pytest.raises(InternalError, match="before it is written"):
        OpGraph((OpNode("a", ("x",), ("y",)),), {"x": 1, "y": 1}, (), ("y",))
    with pytest.raises(InternalError, match="written twice"):
        OpGraph((OpNode("a", (), ("y",)), OpNode("b", (), ("y",))), {"y": 1}, (), ("y",))
    graph = OpGraph((OpNode("a", (), ("y",)), OpNode("b", ("y",), ("z",))), {"y": 1, "z": 1}, (), ("z",))
    with pytest.raises(InternalError, match="before its inputs"):
        order_peak(graph, (1, 0))
    with pytest.raises(InternalError, match="permutation"):
        order_peak(graph, (0, 0))
