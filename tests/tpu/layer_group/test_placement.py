"""Placement against brute force, and its preferences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from nnkit_tpu.layer_group.chips import CHIPS, lane_bytes
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.exact import pack
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.placement import Placement, place_group
from nnkit_tpu.layer_group.plan import GroupPlan, plan_with_count
from nnkit_tpu.layer_group.slices import Refusal, SliceCount, SlicePlan, slice_group
from nnkit_tpu.layer_group.timesteps import schedule_group


def least_peak(sizes: list[int], live_sets: list[frozenset[int]]) -> int:
    """The least peak over all orders of first fit: every pushed-down packing comes from one."""
    meets = [{j for live in live_sets if i in live for j in live} - {i} for i in range(len(sizes))]
    best = sum(sizes)
    for order in permutations(range(len(sizes))):
        offsets: dict[int, int] = {}
        for i in order:
            taken = sorted((offsets[j], offsets[j] + sizes[j]) for j in meets[i] if j in offsets)
            at = 0
            for start, end in taken:
                if at + sizes[i] <= start:
                    break
                at = max(at, end)
            offsets[i] = at
        best = min(best, max(offsets[i] + sizes[i] for i in order))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_exact_search_finds_and_refutes(seed: int) -> None:
    generator = np.random.default_rng(seed)
    count, period = 6, 5
    sizes = [int(s) for s in generator.integers(1, 9, count)]
    arcs = [(int(generator.integers(period)), int(generator.integers(1, period))) for _ in range(count)]
    live_sets = [
        frozenset(i for i, (start, length) in enumerate(arcs) if (step - start) % period < length)
        for step in range(period)
    ]
    peak = least_peak(sizes, live_sets)
    found = pack(sizes, live_sets, peak, 1, 100_000)
    assert found.offsets is not None
    for live in live_sets:
        spans = sorted((found.offsets[i], found.offsets[i] + sizes[i]) for i in live)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    refuted = pack(sizes, live_sets, peak - 1, 1, 100_000)
    assert refuted.offsets is None
    assert refuted.exhausted


def test_a_search_that_runs_out_proves_nothing() -> None:
    live_sets = [frozenset((0, 1)), frozenset((1, 2)), frozenset((2, 0))]
    found = pack([3, 5, 2], live_sets, 10, 1, 1)
    assert found.offsets is None
    assert not found.exhausted


def test_size_per_lane() -> None:
    # n * ceil(c / lanes) * align(h * w, EU bytes / value bytes) * value bytes
    chip = CHIPS["bm1684x"]
    assert lane_bytes(chip, (2, 65, 5, 5), 1) == 2 * 2 * 64
    assert lane_bytes(chip, (2, 65, 5, 5), 2) == 2 * 2 * 32 * 2
    assert lane_bytes(chip, (2, 65, 5, 5), 4) == 2 * 2 * 32 * 4
    assert lane_bytes(chip, (1, 64, 1, 100), 1, False) == 100
    assert lane_bytes(CHIPS["cv181x"], (1, 17, 3, 5), 1) == 3 * 16


def test_weights_come_first_under_slices(branched: GroupGraph) -> None:
    plan = plan_with_count(branched, branched.ops, SliceCount(2, 1), CostModel(CHIPS["cv181x"]))
    assert isinstance(plan, GroupPlan)
    resident = [t.tensor for t in plan.schedule.transfers if t.resident]
    assert len(resident) == 4
    places = sorted(plan.placement.addresses[name] for name in resident)
    assert places[0] == 0


def test_elementwise_ops_work_in_place(branched: GroupGraph) -> None:
    plan = plan_with_count(branched, branched.ops, SliceCount(1, 1), CostModel(CHIPS["bm1684x"]))
    assert isinstance(plan, GroupPlan)
    assert "act" in plan.placement.in_place
    assert plan.placement.addresses["act"] == plan.placement.addresses["up"]
    # "cat" is read again later: nothing may take its place.
    assert plan.placement.addresses["out"] != plan.placement.addresses["cat"]


def test_items_keep_to_one_bank_where_there_is_room(branched: GroupGraph) -> None:
    plan = plan_with_count(branched, branched.ops, SliceCount(1, 1), CostModel(CHIPS["bm1684x"]))
    assert isinstance(plan, GroupPlan)
    assert plan.placement.method == "first fit"
    assert plan.placement.bank_crossings == 0
    assert plan.placement.bank_conflicts == 0


def test_exact_placement_fits_where_first_fit_does_not(branched: GroupGraph) -> None:
    chip = CHIPS["bm1684x"]
    model = CostModel(chip)
    slices = slice_group(branched, branched.ops, SliceCount(1, 1))
    assert isinstance(slices, SlicePlan)
    schedule = schedule_group(branched, branched.ops, slices, model, balance=False)
    methods = set()
    for size in range(4096, 2048, -64):
        small = replace(chip, lane_bytes=size)
        placed = place_group(small, branched, branched.ops, slices, schedule)
        if isinstance(placed, Refusal):
            assert placed.rule == "local memory"
            break
        assert placed.lower_bound_bytes <= placed.peak_bytes <= size
        methods.add(placed.method)
    assert "exact" in methods


def test_what_cannot_fit_says_how_much_is_live(builder: Callable[..., Any]) -> None:
    b = builder((1, 4, 64, 64))
    b.conv("c", "x", 4)
    graph = b.graph()
    chip = replace(CHIPS["cv181x"], lane_bytes=4096)
    slices = slice_group(graph, graph.ops, SliceCount(1, 1))
    assert isinstance(slices, SlicePlan)
    schedule = schedule_group(graph, graph.ops, slices, CostModel(chip))
    refusal = place_group(chip, graph, graph.ops, slices, schedule)
    assert isinstance(refusal, Refusal)
    assert not isinstance(refusal, Placement)
    assert "8244 bytes per lane are live at once, of 4096" in refusal.reason
