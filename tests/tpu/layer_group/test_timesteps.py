"""Timesteps: the published example of an early load, weights that stay, the pipeline's cost counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nnkit_tpu.chips import CHIPS
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.slices import SliceCount, SlicePlan, slice_group
from nnkit_tpu.layer_group.timesteps import Schedule, lives, schedule_group

CHIP = replace(CHIPS["bm1684x"], dma_floor_cycles=0)


def model(cycles: Mapping[str, int]) -> CostModel:
    """A byte a cycle, and the given cycles of whole ops."""
    return CostModel(CHIP, measured=cycles, dma_bytes_per_cycle=1.0)


def chain(builder: Callable[..., Any], count: int, shape: tuple[int, int, int, int] = (1, 4, 8, 8)) -> GroupGraph:
    b = builder(shape)
    for index in range(count):
        b.conv(f"c{index}", f"c{index - 1}" if index else "x", 4)
    return b.graph()


def plan_of(
    graph: GroupGraph, count: SliceCount, costs: CostModel, *, balance: bool = True
) -> tuple[SlicePlan, Schedule]:
    slices = slice_group(graph, graph.ops, count)
    assert isinstance(slices, SlicePlan)
    return slices, schedule_group(graph, graph.ops, slices, costs, balance=balance)


def step_of(schedule: Schedule, tensor: str, kind: str = "load") -> int:
    return next(t.step for t in schedule.transfers if t.tensor == tensor and t.kind == kind)


def test_a_weight_used_in_step_5_is_loaded_under_the_convolution_of_step_2(builder: Callable[..., Any]) -> None:
    # Every load of 52 * 4 bytes hides but the one of c5: step 4 is short, step 2 is a long convolution.
    graph = chain(builder, 6)
    cycles = {"c0": 208, "c1": 208, "c2": 500, "c3": 208, "c4": 10, "c5": 10}
    slices, schedule = plan_of(graph, SliceCount(1, 1), model(cycles))
    assert step_of(schedule, "c5_w") == 2
    late = plan_of(graph, SliceCount(1, 1), model(cycles), balance=False)[1]
    assert step_of(late, "c5_w") == 4
    assert late.cycles - schedule.cycles == 208 - 10
    life = {item.name: item for item in lives(CHIP, graph, graph.ops, slices, schedule)}
    assert (life["c5_w"].first, life["c5_w"].last) == (2, 5)


def test_cost_is_the_longer_of_compute_and_transfers_in_every_step(builder: Callable[..., Any]) -> None:
    graph = chain(builder, 2)
    schedule = plan_of(graph, SliceCount(1, 1), model({"c0": 1000, "c1": 50}), balance=False)[1]
    # fill: input 256 + weight 208; c0 1000 with the load of c1's weight under it; c1 50; drain: store 256.
    assert schedule.cycles == (256 + 208) + 1000 + 50 + 256


def test_slices_pipeline_and_load_weights_once(builder: Callable[..., Any]) -> None:
    b = builder((3, 4, 8, 8))
    b.conv("c0", "x", 4, kernel=1)
    b.conv("c1", "c0", 4, kernel=1)
    graph = b.graph()
    slices, schedule = plan_of(graph, SliceCount(3, 1), model({"c0": 900, "c1": 900}), balance=False)
    assert [t.tensor for t in schedule.transfers if t.resident] == ["c0_w", "c1_w"]
    # The input lives in steps -1 and 0 of its slice, the output in 1 and 2: the period stays at the two ops.
    assert schedule.period == 2
    weight = 4 * (4 + 16)
    # fill, then six steps of 300: under each, one load or store of 256 or a weight of 80; drain.
    assert schedule.cycles == (256 + weight) + 6 * 300 + 256
    life = {item.name: item for item in lives(CHIP, graph, graph.ops, slices, schedule)}
    assert life["c0_w"].whole_loop
    assert life["c1_w"].whole_loop
    assert not life["x"].whole_loop


def test_long_lifetimes_stretch_the_period(builder: Callable[..., Any]) -> None:
    b = builder((2, 4, 8, 8))
    b.conv("c0", "x", 4)
    b.add("s", "binary", "x c0", (2, 4, 8, 8), function="add")
    graph = b.graph()
    # x is loaded in step -1 and read in 0 and 1: with a period of 2 it would meet the next slice's.
    schedule = plan_of(graph, SliceCount(2, 1), model({}), balance=False)[1]
    assert schedule.period == 3


def test_slack_keeps_within_a_lane(builder: Callable[..., Any]) -> None:
    graph = chain(builder, 6)
    tight = replace(CHIP, lane_bytes=64 * 2 + 52 * 2)
    cycles = {"c0": 208, "c1": 208, "c2": 500, "c3": 208, "c4": 10, "c5": 10}
    schedule = schedule_group(
        graph,
        graph.ops,
        plan_of(graph, SliceCount(1, 1), model(cycles))[0],
        replace(model(cycles), chip=tight),
    )
    assert step_of(schedule, "c5_w") == 4
