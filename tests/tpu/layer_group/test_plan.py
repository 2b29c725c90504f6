"""The plan of one group: what fits, what it moves, by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nnkit_tpu.chips import CHIPS
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.plan import GroupPlan, plan_with_count
from nnkit_tpu.layer_group.slices import Refusal, SliceCount


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv183x", "cv182x", "cv181x", "cv180x"])
def test_batches_are_split_on_every_chip(branched: GroupGraph, chip: str) -> None:
    plan = plan_with_count(branched, branched.ops, SliceCount(2, 1), CostModel(CHIPS[chip]))
    assert isinstance(plan, GroupPlan)
    assert plan.repeated_rows == 0
    assert 0 < plan.live_bytes <= CHIPS[chip].lane_bytes
    weights = sum(weight.size_bytes for weight in branched.weights.values())
    assert plan.load_bytes == branched.tensors["x"].size_bytes + weights
    assert plan.store_bytes == sum(branched.tensors[name].size_bytes for name in branched.outputs)


def test_weights_that_cannot_stay_are_loaded_for_every_slice(builder: Callable[..., Any]) -> None:
    b = builder((2, 8, 8, 8))
    for index in range(5):
        b.conv(f"c{index}", f"c{index - 1}" if index else "x", 8)
    graph = b.graph()
    # On cv181x 88 bytes a lane for each weight, 64 for each activation: five weights leave too little of 512.
    narrow = replace(CHIPS["cv181x"], lane_bytes=512)
    roomy = plan_with_count(graph, graph.ops, SliceCount(2, 1), CostModel(CHIPS["cv181x"]))
    assert isinstance(roomy, GroupPlan)
    assert all(transfer.resident for transfer in roomy.schedule.transfers if transfer.tensor in graph.weights)
    plan = plan_with_count(graph, graph.ops, SliceCount(2, 1), CostModel(narrow))
    assert isinstance(plan, GroupPlan)
    assert not any(transfer.resident for transfer in plan.schedule.transfers)
    weights = sum(weight.size_bytes for weight in graph.weights.values())
    assert roomy.load_bytes == graph.tensors["x"].size_bytes + weights
    assert plan.load_bytes == graph.tensors["x"].size_bytes + 2 * weights


def test_what_cannot_fit_says_how_much_is_live(builder: Callable[..., Any]) -> None:
    b = builder((1, 4, 64, 64))
    b.conv("c", "x", 4)
    graph = b.graph()
    model = CostModel(replace(CHIPS["cv181x"], lane_bytes=4096))
    refusal = plan_with_count(graph, graph.ops, SliceCount(1, 1), model)
    assert isinstance(refusal, Refusal)
    assert refusal.rule == "local memory"
    assert refusal.reason == "8244 bytes per lane are live at once in 1 slices, of 4096"
