"""The executor proves good plans and notices bad ones: each mutation breaks one thing a planner can get wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.chips import CHIPS, Chip
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.data_flow import DataFlow
from nnkit_tpu.layer_group.executor import Execution, execute, reference
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.kernels import MissingRowsError, Rows
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.placement import Placement
from nnkit_tpu.layer_group.plan import GroupPlan, plan_with_count
from nnkit_tpu.layer_group.slices import Part, Refusal, SliceCount, slice_counts

CHIP = CHIPS["bm1688"]


def planned(graph: GroupGraph, count: SliceCount, chip: Chip = CHIP) -> GroupPlan:
    plan = plan_with_count(graph, graph.ops, count, CostModel(chip))
    assert isinstance(plan, GroupPlan)
    return plan


def run(graph: GroupGraph, plan: GroupPlan) -> Execution:
    return execute(CHIP, graph, [plan])


def with_transfer(plan: GroupPlan, tensor: str, kind: str, step: int) -> GroupPlan:
    transfers = tuple(
        replace(t, step=step) if (t.tensor, t.kind) == (tensor, kind) else t for t in plan.schedule.transfers
    )
    return replace(plan, schedule=replace(plan.schedule, transfers=transfers))


def with_addresses(plan: GroupPlan, **addresses: int) -> GroupPlan:
    placement: Placement = replace(plan.placement, addresses={**plan.placement.addresses, **addresses})
    return replace(plan, placement=placement)


@pytest.mark.parametrize("count", [(1, 1), (2, 1), (2, 2)])
def test_every_slicing_gives_the_unsliced_result(branched: GroupGraph, count: tuple[int, int]) -> None:
    plan = planned(branched, SliceCount(*count))
    execution = run(branched, plan)
    assert execution.proven
    assert execution.values == sum(np.prod(branched.tensors[name].shape) for name in branched.outputs)
    assert (execution.load_bytes, execution.store_bytes) == (plan.load_bytes, plan.store_bytes)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv183x", "cv182x", "cv181x", "cv180x"])
def test_all_chips(branched: GroupGraph, chip: str) -> None:
    plan = planned(branched, SliceCount(2, 1), CHIPS[chip])
    assert execute(CHIPS[chip], branched, [plan]).proven


@pytest.mark.parametrize("count", [(1, 1), (2, 2)])
def test_a_late_load_is_noticed(branched: GroupGraph, count: tuple[int, int]) -> None:
    plan = planned(branched, SliceCount(*count))
    step = plan.schedule.ops.index("wide")
    execution = run(branched, with_transfer(plan, "wide_w", "load", step))
    assert not execution.proven
    assert execution.violations[0].where == "wide"
    assert "'wide_w' are not there" in execution.violations[0].reason


def test_weights_that_cannot_stay_are_loaded_for_every_slice(builder: Callable[..., Any]) -> None:
    b = builder((2, 8, 8, 8))
    for index in range(5):
        b.conv(f"c{index}", f"c{index - 1}" if index else "x", 8)
    graph = b.graph()
    # On cv181x 88 bytes a lane for each weight, 64 for each activation: five weights leave too little of 512.
    chip = replace(CHIPS["cv181x"], lane_bytes=512)
    roomy = planned(graph, SliceCount(2, 1), CHIPS["cv181x"])
    assert all(transfer.resident for transfer in roomy.schedule.transfers if transfer.tensor in graph.weights)
    plan = planned(graph, SliceCount(2, 1), chip)
    assert not any(transfer.resident for transfer in plan.schedule.transfers)
    execution = execute(chip, graph, [plan])
    assert execution.proven
    weights = sum(weight.size_bytes for weight in graph.weights.values())
    assert execution.load_bytes == plan.load_bytes == graph.tensors["x"].size_bytes + 2 * weights


def test_an_early_store_is_noticed(branched: GroupGraph) -> None:
    plan = planned(branched, SliceCount(1, 1))
    step = plan.schedule.ops.index("down")
    execution = run(branched, with_transfer(plan, "down", "store", step))
    assert execution.mismatches > 0
    assert "store of down" in {violation.where for violation in execution.violations}


def test_a_missing_store_is_noticed(branched: GroupGraph) -> None:
    plan = planned(branched, SliceCount(1, 1))
    transfers = tuple(t for t in plan.schedule.transfers if t.tensor != "down" or t.kind != "store")
    execution = run(branched, replace(plan, schedule=replace(plan.schedule, transfers=transfers)))
    assert "never stored" in execution.violations[0].reason


@pytest.mark.parametrize("count", [(1, 1), (2, 2)])
def test_overlapping_addresses_are_noticed(branched: GroupGraph, count: tuple[int, int]) -> None:
    plan = planned(branched, SliceCount(*count))
    execution = run(branched, with_addresses(plan, dw=plan.placement.addresses["cat"]))
    assert not execution.proven
    moved = with_addresses(plan, sum=plan.placement.addresses["dw_w"])
    assert not run(branched, moved).proven


def test_a_buffer_over_live_bytes_is_noticed(branched: GroupGraph) -> None:
    plan = planned(branched, SliceCount(1, 1))
    execution = run(branched, with_addresses(plan, **{"c2:buffer": plan.placement.addresses["c1"]}))
    assert any("written over" in violation.reason for violation in execution.violations)


def test_an_address_beyond_the_lane_is_noticed(branched: GroupGraph) -> None:
    plan = planned(branched, SliceCount(1, 1))
    execution = run(branched, with_addresses(plan, cat=CHIP.lane_bytes - 16))
    assert any("outside a lane" in violation.reason for violation in execution.violations)


@pytest.mark.parametrize("tensor", ["x", "c1", "sum", "cat"])
def test_a_missing_halo_row_is_noticed(branched: GroupGraph, tensor: str) -> None:
    plan = planned(branched, SliceCount(2, 2))
    parts = list(plan.slices.parts[tensor])
    first = parts[0]
    parts[0] = Part(first.images, Span(first.rows.start, first.rows.stop - 1))
    slices = replace(plan.slices, parts={**plan.slices.parts, tensor: tuple(parts)})
    execution = run(branched, replace(plan, slices=slices))
    assert not execution.proven
    assert any("are read" in violation.reason for violation in execution.violations)


def test_a_shifted_slice_is_noticed(branched: GroupGraph) -> None:
    plan = planned(branched, SliceCount(2, 2))
    parts = list(plan.slices.parts["x"])
    parts[1] = Part(parts[1].images, Span(parts[1].rows.start - 1, parts[1].rows.stop - 1))
    slices = replace(plan.slices, parts={**plan.slices.parts, "x": tuple(parts)})
    assert not run(branched, replace(plan, slices=slices)).proven


def test_a_period_that_is_too_short_is_noticed(builder: Callable[..., Any]) -> None:
    b = builder((2, 4, 8, 8))
    b.conv("c0", "x", 4)
    b.add("s", "binary", "x c0", (2, 4, 8, 8), function="add")
    graph = b.graph()
    plan = planned(graph, SliceCount(2, 1))
    assert run(graph, plan).proven
    assert not run(graph, replace(plan, schedule=replace(plan.schedule, period=2))).proven


def test_weights_reloaded_over_by_activations_are_noticed(branched: GroupGraph) -> None:
    # A weight that is loaded once must stay: giving its bytes away after its use breaks the second slice alone.
    plan = planned(branched, SliceCount(2, 1))
    execution = run(branched, with_addresses(plan, act=plan.placement.addresses["c1_w"]))
    assert any("slice 1" in violation.reason and "c1_w" in violation.reason for violation in execution.violations)


def test_the_reference_depends_on_every_weight_byte(branched: GroupGraph) -> None:
    inputs, weights = DataFlow().values(branched, 1)
    expected = reference(branched, inputs, weights)
    changed = {name: value.copy() for name, value in weights.items()}
    changed["c1_w"][0, 3, 0, 0] ^= 0x40
    assert any(np.any(reference(branched, inputs, changed)[n] != expected[n]) for n in branched.outputs)


def test_rows_outside_the_tensor_are_padding_and_inside_must_be_held() -> None:
    values = np.arange(4, dtype=np.int8).reshape(1, 1, 4, 1)
    rows = Rows(values, 2, 8)
    assert rows.take(3, 5).ravel().tolist() == [1, 2]
    with pytest.raises(MissingRowsError):
        rows.take(1, 4)
    assert Rows(values, 0, 4).take(-2, 6, fill=9).ravel().tolist() == [9, 9, 0, 1, 2, 3, 9, 9]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_graphs_are_planned_and_proven(data: st.DataObject, builder: Callable[..., Any]) -> None:
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
            b.add(name, "unary", source, shape, in_place=True)
        elif kind == "sum":
            b.add(
                name, "binary", f"{source} {data.draw(st.sampled_from(alike))}", shape, function="add", in_place=True
            )
        elif kind == "concat":
            other = data.draw(st.sampled_from(alike))
            b.add(name, "concat", f"{source} {other}", (shape[0], 2 * shape[1], *shape[2:]))
        else:
            b.add(name, "upsample", source, (*shape[:2], 2 * shape[2], 2 * shape[3]), scale=(2.0, 2.0))
        names.append(name)
    read = {name for op in b.ops for name in op.inputs}
    graph = b.graph(*[op.output for op in b.ops if op.output not in read])
    chip = replace(CHIPS["cv181x"], lane_bytes=data.draw(st.sampled_from((1024, 4096, 32768))))
    for count in list(slice_counts(graph, graph.ops))[:8]:
        plan = plan_with_count(graph, graph.ops, count, CostModel(chip))
        if not isinstance(plan, Refusal):
            assert execute(chip, graph, [plan]).violations == ()
    grouped = plan_groups(graph, CostModel(chip), orders=False)
    assert execute(chip, grouped.graph, grouped.parts).proven
