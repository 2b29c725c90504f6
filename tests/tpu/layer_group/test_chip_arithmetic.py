"""Slices in local memory give what the quantised program gives, op by op and as placed plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.calibrate.stats import ValueRange
from nnkit.program.ops import Window
from nnkit.program.program import Program
from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.chip_arithmetic import ChipArithmetic
from nnkit_tpu.layer_group.chips import CHIPS
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.executor import execute, reference
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.groups import GroupedGraph, plan_cuts, plan_groups
from nnkit_tpu.layer_group.kernels import MissingRowsError, Rows
from nnkit_tpu.layer_group.packing import pack, unpack
from nnkit_tpu.layer_group.plan import GroupPlan
from nnkit_tpu.layer_group.slices import Part, SliceCount
from nnkit_tpu.program import (
    IntegerWeights,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuOp,
    TpuPad,
    TpuPool,
    TpuScale,
    TpuSlice,
    TpuTensor,
    TpuUpsample,
)
from nnkit_tpu.quantize import Precision, graph_of, to_program

HEIGHT, WIDTH = 13, 7


def quantised(ops: tuple[TpuOp, ...], shapes: dict[str, tuple[int, ...]], chip: str = "bm1684x") -> Program:
    """The INT8 program of ops on `x`, whose values spread over the formats' range without saturating all."""
    read = {name for op in ops for name in op.inputs}
    outputs = tuple(op.output for op in ops if op.output not in read)
    graph = TpuGraph("net", {n: TpuTensor(n, s) for n, s in shapes.items()}, ops, ("x",), outputs)
    ranges = {name: ValueRange(-3.0, 3.0, -3.0, 3.0) for name in shapes}
    # Tensors behind a ReLU are unsigned, with a scale of their own.
    for op in ops:
        if getattr(op, "relu", False):
            ranges[op.output] = ValueRange(0.0, 4.5, 0.0, 4.5)
    return to_program(graph, ranges, Precision(chip, "INT8"))


def network() -> tuple[tuple[TpuOp, ...], dict[str, tuple[int, ...]]]:
    generator = np.random.default_rng(3)

    def conv(name: str, source: str, out: int, inputs: int, kernel: int = 3, **fields: Any) -> TpuConv:
        weight = generator.normal(0, 0.3, (out, inputs, kernel, kernel)).astype(np.float32)
        bias = generator.normal(0, 0.3, out).astype(np.float32)
        pad = kernel // 2
        window = Window(kernel, kernel, 1, 1, 1, 1, pad, pad, pad, pad)
        return TpuConv(name=name, inputs=(source,), output=name, weight=weight, bias=bias, window=window, **fields)

    up = generator.normal(0, 0.3, (8, 16, 2, 2)).astype(np.float32)
    ops: tuple[TpuOp, ...] = (
        conv("c1", "x", 16, 3, relu=True),
        conv("dw", "c1", 16, 1, group=16, relu=True),
        conv("c2", "dw", 16, 16),
        TpuBinary(name="sum", inputs=("c1", "c2"), output="sum", function="add"),
        TpuActivation(name="act", inputs=("sum",), output="act", function="sigmoid"),
        TpuPool(name="p", inputs=("act",), output="p", function="average", window=Window(2, 2, 2, 2)),
        TpuDeconv(name="d", inputs=("p",), output="d", weight=up, bias=None, window=Window(2, 2, 2, 2)),
        TpuConcat(name="cat", inputs=("d", "sum"), output="cat", axis=1),
        TpuPool(name="m", inputs=("cat",), output="m", function="max", window=Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1)),
        TpuUpsample(name="u", inputs=("m",), output="u", scale_h=2, scale_w=2),
    )
    shapes = {
        "x": (1, 3, 24, 16),
        **dict.fromkeys(("c1", "dw", "c2", "sum", "act"), (1, 16, 24, 16)),
        "p": (1, 16, 12, 8),
        "d": (1, 8, 24, 16),
        "cat": (1, 24, 24, 16),
        "m": (1, 24, 12, 8),
        "u": (1, 24, 24, 16),
    }
    return ops, shapes


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x", "cv180x"])
@pytest.mark.parametrize("batch", [1, 3])
def test_placed_slices_give_the_programs_integers(chip: str, batch: int) -> None:
    program = quantised(*network(), chip)
    planned = group_graph(graph_of(program), CHIPS[chip], batch=batch)
    cuts = [(0, 4, SliceCount(batch, 3)), (5, 9, SliceCount(1, 2))]
    plan = plan_cuts(planned, CostModel(CHIPS[chip]), cuts)
    assert isinstance(plan, GroupedGraph)
    arithmetic = ChipArithmetic(graph_of(program), planned)
    assert set(arithmetic.exact) == {op.name for op in program.ops}
    execution = execute(CHIPS[chip], plan.graph, plan.parts, arithmetic=arithmetic)
    assert execution.proven, execution.violations
    # The reference is the program itself, op after op on whole tensors, from the same stored inputs.
    inputs, weights = arithmetic.values(planned, 1)
    expected = reference(planned, inputs, weights, arithmetic)
    assert len(np.unique(expected["u"])) > 20
    for image in range(batch):
        values: dict[str, np.ndarray] = {"x": inputs["x"][image]}
        for op in program.ops:
            mine = arithmetic.ops[op.name]
            values[op.output] = mine.compute([values[n] for n in op.inputs], program.tensors[op.output])
        for name in program.tensors:
            assert np.array_equal(expected[name][image], values[name].view(np.int8)), name


def test_a_missing_halo_row_and_a_lost_weight_byte_are_noticed() -> None:
    program = quantised(*network())
    chip = CHIPS["bm1684x"]
    planned = group_graph(graph_of(program), chip)
    plan = plan_cuts(planned, CostModel(chip), [(0, 9, SliceCount(1, 2))])
    assert isinstance(plan, GroupedGraph)
    arithmetic = ChipArithmetic(graph_of(program), planned)
    at = next(i for i, part in enumerate(plan.parts) if isinstance(part, GroupPlan) and part.slices.count.h > 1)
    group = plan.parts[at]
    assert isinstance(group, GroupPlan)
    loaded = next(t.tensor for t in group.schedule.transfers if t.kind == "load" and t.tensor in planned.tensors)
    parts = list(group.slices.parts[loaded])
    parts[0] = Part(parts[0].images, Span(parts[0].rows.start, parts[0].rows.stop - 1))
    broken = replace(group, slices=replace(group.slices, parts={**group.slices.parts, loaded: tuple(parts)}))
    changed = (*plan.parts[:at], broken, *plan.parts[at + 1 :])
    assert not execute(chip, plan.graph, changed, arithmetic=arithmetic).proven
    weight = next(t.tensor for t in group.schedule.transfers if t.kind == "load" and t.tensor in planned.weights)
    other = next(name for name in group.placement.addresses if name not in (weight, loaded))
    addresses = {**group.placement.addresses, weight: group.placement.addresses[other]}
    broken = replace(group, placement=replace(group.placement, addresses=addresses))
    changed = (*plan.parts[:at], broken, *plan.parts[at + 1 :])
    assert not execute(chip, plan.graph, changed, arithmetic=arithmetic).proven


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_every_weight_survives_packing_and_a_changed_byte_changes_the_result(chip: str) -> None:
    program = quantised(*network(), chip)
    graph = graph_of(program)
    planned = group_graph(graph, CHIPS[chip])
    checked = 0
    for op, mine in zip(graph.ops, planned.ops, strict=True):
        if not isinstance(op.integer if isinstance(op, (TpuConv, TpuDeconv)) else None, IntegerWeights):
            continue
        blobs = [pack(op, mine, planned.weights)[name] for name in mine.weights]
        again = unpack(op, mine, blobs)
        assert isinstance(again, (TpuConv, TpuDeconv))
        assert again.integer is not None
        assert op.integer is not None
        assert np.array_equal(again.integer.weight, op.integer.weight)
        assert np.array_equal(again.integer.requant.multiplier, op.integer.requant.multiplier)
        assert np.array_equal(again.integer.requant.shift, op.integer.requant.shift)
        bias = op.integer.bias if op.integer.bias is not None else np.zeros(op.weight.shape[0])
        assert np.array_equal(again.integer.bias, bias)
        blobs[0].reshape(-1)[-1] ^= 0x40
        found = unpack(op, mine, blobs)
        assert not np.array_equal(found.integer.weight, op.integer.weight)
        checked += 1
    assert checked == 4


@st.composite
def single_ops(draw: st.DrawFn) -> tuple[TpuOp, tuple[int, ...]]:
    """One op on x [1, 4, 13, 7], and the shape of its output."""
    kind = draw(
        st.sampled_from(("conv", "max", "average", "counted", "deconv", "up", "slice", "pad", "add", "prelu"))
    )
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    k, s = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    if kind == "up":
        return TpuUpsample(name="y", inputs=("x",), output="y", scale_h=s, scale_w=2), (1, 4, HEIGHT * s, WIDTH * 2)
    if kind == "slice":
        begin, end = draw(st.integers(0, 4)), draw(st.integers(8, HEIGHT))
        op = TpuSlice(
            name="y", inputs=("x",), output="y", offsets=(0, 1, begin, 2), steps=(1, 1, s, 1), ends=(1, 3, end, WIDTH)
        )
        return op, (1, 2, -(-(end - begin) // s), WIDTH - 2)
    if kind == "pad":
        above, below = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        pads = (0, 0, above, 1, 0, 0, below, 2)
        return TpuPad(name="y", inputs=("x",), output="y", pads=pads), (1, 4, HEIGHT + above + below, WIDTH + 3)
    if kind == "add":
        return TpuBinary(name="y", inputs=("x", "x"), output="y", function="add", relu=True), (1, 4, HEIGHT, WIDTH)
    if kind == "prelu":
        slopes = generator.normal(0, 0.5, 4).astype(np.float32)
        op_ = TpuActivation(name="y", inputs=("x",), output="y", function="prelu", slopes=slopes)
        return op_, (1, 4, HEIGHT, WIDTH)
    d = draw(st.integers(1, 2)) if kind in ("conv", "deconv") else 1
    reach = (k - 1) * d
    top, bottom = draw(st.integers(0, min(reach, k - 1))), draw(st.integers(0, min(reach, k - 1)))
    window = Window(k, 1, s, 1, d, 1, top, 0, bottom, 0)
    if kind == "deconv":
        extra = draw(st.integers(0, s - 1))
        weight = generator.normal(0, 0.3, (6, 4, k, 1)).astype(np.float32)
        bias = generator.normal(0, 0.3, 6).astype(np.float32)
        deconv = TpuDeconv(
            name="y", inputs=("x",), output="y", weight=weight, bias=bias, window=window, output_padding=(extra, 0)
        )
        return deconv, (1, 6, (HEIGHT - 1) * s + reach + 1 + extra - top - bottom, WIDTH)
    shape = window.output_hw(HEIGHT, WIDTH)
    if kind == "conv":
        weight = generator.normal(0, 0.3, (6, 2, k, 1)).astype(np.float32)
        bias = generator.normal(0, 0.3, 6).astype(np.float32)
        conv = TpuConv(name="y", inputs=("x",), output="y", weight=weight, bias=bias, window=window, group=2)
        return conv, (1, 6, *shape)
    function = "max" if kind == "max" else "average"
    pool = TpuPool(
        name="y", inputs=("x",), output="y", function=function, window=window, count_include_pad=kind == "counted"
    )
    return pool, (1, 4, *shape)


@settings(max_examples=250, deadline=None)
@given(drawn=single_ops(), data=st.data())
def test_any_rows_of_an_op_are_those_of_the_whole(drawn: tuple[TpuOp, tuple[int, ...]], data: st.DataObject) -> None:
    op, shape = drawn
    program = quantised((op,), {"x": (1, 4, HEIGHT, WIDTH), "y": shape})
    planned = group_graph(graph_of(program), CHIPS["bm1684x"])
    arithmetic = ChipArithmetic(graph_of(program), planned)
    assert arithmetic.without == {}
    inputs, weights = arithmetic.values(planned, data.draw(st.integers(0, 50)))
    whole = arithmetic.whole(planned, planned.ops[0], inputs, weights)
    start = data.draw(st.integers(0, shape[2] - 1))
    stop = data.draw(st.integers(start + 1, shape[2]))
    mine = planned.ops[0]
    blobs = [weights[name] for name in mine.weights]

    def rows_of(first: int, last: int) -> np.ndarray:
        held = [Rows(inputs[n][:, :, first:last], first, HEIGHT) for n in mine.inputs]
        return arithmetic.compute(planned, mine, held, blobs, Span(start, stop))

    assert np.array_equal(rows_of(0, HEIGHT), whole[:, :, start:stop])
    # The fewest rows that are enough: with one less on either side the arithmetic says so, never another result.
    first, last = 0, HEIGHT
    while first < HEIGHT and enough(rows_of, first + 1, last):
        first += 1
    while last > first and enough(rows_of, first, last - 1):
        last -= 1
    assert np.array_equal(rows_of(first, last), whole[:, :, start:stop])


def enough(rows_of: Any, first: int, last: int) -> bool:
    try:
        rows_of(first, last)
    except MissingRowsError:
        return False
    return True


def test_ops_without_the_chips_arithmetic_are_named() -> None:
    ops, shapes = network()
    scale = TpuScale(name="s", inputs=("u",), output="s", scale=np.ones(24, np.float32), bias=np.ones(24, np.float32))
    low = TpuBinary(name="low", inputs=("u", "s"), output="low", function="min")
    program = quantised((*ops, scale, low), {**shapes, "s": shapes["u"], "low": shapes["u"]})
    planned = group_graph(graph_of(program), CHIPS["bm1684x"])
    arithmetic = ChipArithmetic(graph_of(program), planned)
    assert arithmetic.without == {"low": "it runs in F16"}
    plan = plan_groups(planned, CostModel(CHIPS["bm1684x"]), orders=False)
    assert execute(CHIPS["bm1684x"], plan.graph, plan.parts, arithmetic=arithmetic).proven
