"""The compiler's lowered program as a graph for the planner: what our plan moves, by the compiler's own count."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.final_program import final_ops
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.injection import compile_groups, groups_of
from nnkit_tpu.layer_group.rules import whole_plan_rules
from nnkit_tpu.layer_group.slices import SliceCount
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
)
from nnkit_tpu.toolchain import Toolchain

CHANNELS, SIDE, PAIRS = 16, 32, 3


def _with_slopes() -> TpuGraph:
    """Convolutions with a slope per channel behind each."""
    random = np.random.default_rng(4)
    ops: list[TpuOp] = []
    last = "x"
    for index in range(PAIRS):
        weight = random.normal(0, 0.1, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
        conv, sloped = f"conv{index}", f"sloped{index}"
        ops.append(TpuConv(name=conv, inputs=(last,), output=conv, weight=weight, bias=None, window=window))
        slopes = random.uniform(0.1, 0.4, CHANNELS).astype(np.float32)
        ops.append(TpuActivation(name=sloped, inputs=(conv,), output=sloped, function="prelu", slopes=slopes))
        last = sloped
    names = ("x", *(op.output for op in ops))
    tensors = {name: TpuTensor(name, (1, CHANNELS, SIDE, SIDE)) for name in names}
    return TpuGraph("net", tensors, tuple(ops), ("x",), (last,))


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_slopes_per_channel_work_in_local_memory(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    graph = _with_slopes()
    ranges = dict.fromkeys(graph.tensors, ValueRange(-4.0, 4.0, -4.0, 4.0))
    program = lower_graph(tpu_toolchain, graph, CompileOptions(chip), tmp_path, ranges=ranges).ready
    model = replace(CostModel(program.chip), counts_bytes=True)
    rules = whole_plan_rules(program.chip)
    plans = {each.name: plan_groups(each.graph, model, orders=False, rules=rules) for each in program.functions}
    ours = compile_groups(tpu_toolchain, program, {name: groups_of(plan) for name, plan in plans.items()})
    assert not ours.refused
    vendor = compile_groups(tpu_toolchain, program)
    assert ours.traffic is not None
    assert vendor.traffic is not None
    assert ours.traffic.total_bytes <= vendor.traffic.total_bytes


def test_channels_are_not_weighed_in_local_memory_of_the_cv181x(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """Squeeze and excite: in a group of ours the chip model gave other values than with the compiler's own groups."""
    shape, one = (1, CHANNELS, SIDE, SIDE), (1, CHANNELS, 1, 1)
    weight = np.random.default_rng(6).normal(0, 0.1, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32)
    ops = (
        TpuConv(name="c", inputs=("x",), output="c", weight=weight, bias=None, window=Window(kernel_h=1, kernel_w=1)),
        TpuPool(name="p", inputs=("c",), output="p", function="average", window=Window(kernel_h=SIDE, kernel_w=SIDE)),
        TpuActivation(name="s", inputs=("p",), output="s", function="sigmoid"),
        TpuBinary(name="y", inputs=("c", "s"), output="y", function="mul"),
        TpuPool(name="z", inputs=("y",), output="z", function="average", window=Window(kernel_h=SIDE, kernel_w=SIDE)),
    )
    tensors = {name: TpuTensor(name, shape if name in "xcy" else one) for name in "xcpsyz"}
    graph = TpuGraph("net", tensors, ops, ("x",), ("z",))
    ranges = dict.fromkeys(tensors, ValueRange(-2.0, 2.0, -2.0, 2.0))
    program = lower_graph(tpu_toolchain, graph, CompileOptions("cv181x"), tmp_path, ranges=ranges).ready
    model = CostModel(program.chip, counts_bytes=True)
    rules = whole_plan_rules(program.chip)
    plans = {each.name: plan_groups(each.graph, model, orders=False, rules=rules) for each in program.functions}
    x = np.random.default_rng(7).normal(0.4, 1, shape).astype(np.float32)
    values = []
    for groups in (None, {name: groups_of(plan) for name, plan in plans.items()}):
        outcome = compile_groups(tpu_toolchain, program, groups)
        assert any(outcome.groups.values())
        file = tmp_path / "net.cvimodel"
        file.write_bytes(outcome.model)
        values += run_on_chip_model(tpu_toolchain, file, "cv181x", {"x": x}).values()
    assert np.ptp(values[0]) > 0
    assert np.array_equal(*values)


def test_images_are_not_padded_by_their_edge_in_local_memory_of_the_cv181x(
    tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    """As bilinear enlargement is written: in a group of ours the chip model gave other values."""
    random = np.random.default_rng(8)
    one = Window(kernel_h=1, kernel_w=1)
    ops: list[TpuOp] = []
    for index, source in enumerate(("x", "p0")):
        weight = random.normal(0, 0.1, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32)
        name = f"c{index}"
        ops.append(TpuConv(name=name, inputs=(source,), output=name, weight=weight, bias=None, window=one, relu=True))
        pad = TpuPad(
            name=f"p{index}", inputs=(name,), output=f"p{index}", pads=(0, 0, 1, 1, 0, 0, 1, 1), method="edge"
        )
        ops.append(pad)
    sides = {"x": SIDE, "c0": SIDE, "p0": SIDE + 2, "c1": SIDE + 2, "p1": SIDE + 4}
    tensors = {name: TpuTensor(name, (1, CHANNELS, side, side)) for name, side in sides.items()}
    graph = TpuGraph("net", tensors, tuple(ops), ("x",), ("p1",))
    ranges = dict.fromkeys(tensors, ValueRange(-2.0, 2.0, -2.0, 2.0))
    program = lower_graph(tpu_toolchain, graph, CompileOptions("cv181x"), tmp_path, ranges=ranges).ready
    model = CostModel(program.chip, counts_bytes=True)
    plans = {
        each.name: plan_groups(each.graph, model, rules=whole_plan_rules(program.chip)) for each in program.functions
    }
    x = random.normal(0.4, 1, (1, CHANNELS, SIDE, SIDE)).astype(np.float32)
    values = []
    for groups in (None, {name: groups_of(plan) for name, plan in plans.items()}):
        outcome = compile_groups(tpu_toolchain, program, groups)
        assert not outcome.refused
        (tmp_path / "net.cvimodel").write_bytes(outcome.model)
        (value,) = run_on_chip_model(tpu_toolchain, tmp_path / "net.cvimodel", "cv181x", {"x": x}).values()
        values.append(value)
    assert np.ptp(values[0]) > 0
    assert np.array_equal(*values)


def test_products_of_rows_share_a_group_with_convolutions(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """And give what they give on global memory; a product of a vector stays there, as do slices of five axes."""
    random = np.random.default_rng(8)

    def weight(*shape: int) -> np.ndarray:
        return random.normal(0, 0.1, shape).astype(np.float32)

    one, common = Window(kernel_h=1, kernel_w=1), {"bias": None}
    ops: tuple[TpuOp, ...] = (
        TpuConv(name="c", inputs=("x",), output="c", weight=weight(24, 16, 1, 1), window=one, relu=True, **common),
        TpuReshape(name="r", inputs=("c",), output="r"),
        TpuMatMul(name="m", inputs=("r",), output="m", weight=weight(40, 64)),
        TpuActivation(name="s", inputs=("m",), output="s", function="sigmoid"),
        TpuMatMul(name="n", inputs=("s",), output="n", weight=weight(64, 40)),
        TpuBinary(name="b", inputs=("n", "r"), output="b", function="add"),
        TpuReshape(name="five", inputs=("b",), output="five"),
        TpuSlice(
            name="half", inputs=("five",), output="half", offsets=(0,) * 5, steps=(1,) * 5, ends=(1, 2, 6, 2, 20)
        ),
        TpuReshape(name="v", inputs=("half",), output="v"),
        TpuMatMul(name="y", inputs=("v",), output="y", weight=weight(480, 5)),
    )
    shapes = {"x": (1, 16, 1, 40), "c": (1, 24, 1, 40), "r": (1, 24, 40), "m": (1, 24, 64), "s": (1, 24, 64)}
    shapes |= {"n": (1, 24, 40), "b": (1, 24, 40), "five": (1, 4, 6, 2, 20), "half": (1, 2, 6, 2, 20)}
    shapes |= {"v": (1, 480), "y": (1, 5)}
    graph = TpuGraph("net", {name: TpuTensor(name, shape) for name, shape in shapes.items()}, ops, ("x",), ("y",))
    ranges = dict.fromkeys(graph.tensors, ValueRange(-2.0, 2.0, -2.0, 2.0))
    program = lower_graph(tpu_toolchain, graph, CompileOptions("bm1684x"), tmp_path, ranges=ranges).ready
    (function,) = program.functions
    plan = plan_groups(function.graph, CostModel(program.chip), rules=whole_plan_rules(program.chip))
    grouped = {op.name for group in plan.groups for op in group.ops}
    assert {"c", "m", "n", "b"} <= grouped
    assert not {"half", "y"} & grouped
    x = random.normal(0.4, 1, shapes["x"]).astype(np.float32)
    values = []
    for groups in ((), groups_of(plan)):
        outcome = compile_groups(tpu_toolchain, program, {function.name: groups})
        assert not outcome.refused
        assert [(each.first, each.last) for each in outcome.groups[function.name]] == [
            (g.first, g.last) for g in groups
        ]
        (tmp_path / "net.bmodel").write_bytes(outcome.model)
        values += run_on_chip_model(tpu_toolchain, tmp_path / "net.bmodel", "bm1684x", {"x": x}).values()
    assert np.ptp(values[0]) > 0
    assert np.array_equal(*values)


def test_softmax_and_sums_along_columns_give_what_they_give_on_global_memory(
    tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    """In F16 in a network of integers, sliced along the rows."""
    random = np.random.default_rng(8)
    one, shape = Window(kernel_h=1, kernel_w=1), (1, 64, 40, 37)
    weights = [random.normal(0, 0.1, (64, 64, 1, 1)).astype(np.float32) for _ in range(3)]
    ops: tuple[TpuOp, ...] = (
        TpuConv(name="a", inputs=("x",), output="a", weight=weights[0], bias=None, window=one),
        TpuSoftmax(name="s", inputs=("a",), output="s", axis=3),
        TpuConv(name="b", inputs=("s",), output="b", weight=weights[1], bias=None, window=one),
        TpuReduce(name="r", inputs=("b",), output="r", function="sum", axes=(3,), keep_dims=True),
        TpuConv(name="d", inputs=("r",), output="d", weight=weights[2], bias=None, window=one),
    )
    tensors = {name: TpuTensor(name, (*shape[:3], 1) if name in "rd" else shape) for name in "xasbrd"}
    graph = TpuGraph("net", tensors, ops, ("x",), ("d",))
    ranges = dict.fromkeys(tensors, ValueRange(-2.0, 2.0, -2.0, 2.0))
    modes, options = {"s": "F16", "r": "F16"}, CompileOptions("bm1684x")
    program = lower_graph(tpu_toolchain, graph, options, tmp_path, ranges=ranges, modes=modes).ready
    (function,) = program.functions
    assert not any(op.not_local for op in function.graph.ops)
    everything = (InjectedGroup(0, len(function.graph.ops) - 1, SliceCount(1, 3)),)
    x = random.normal(0, 3, shape).astype(np.float32)
    values = []
    for groups in ((), everything):
        outcome = compile_groups(tpu_toolchain, program, {function.name: groups})
        assert not outcome.refused
        assert outcome.groups[function.name] == groups
        (tmp_path / "net.bmodel").write_bytes(outcome.model)
        values += run_on_chip_model(tpu_toolchain, tmp_path / "net.bmodel", "bm1684x", {"x": x}).values()
    assert np.ptp(values[0]) > 0
    assert np.array_equal(*values)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_permutations_are_outside_of_groups_whoever_forms_them(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    """Those that move values, between layers that are in groups otherwise."""
    shape, orders = (1, 8, 12, 10), [(0, *order) for order in permutations((1, 2, 3))][1:]
    weight = np.random.default_rng(4).normal(0, 0.1, (8, 8, 3, 3)).astype(np.float32)
    window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    ops: list[TpuOp] = [TpuConv(name="c", inputs=("x",), output="c", weight=weight, bias=None, window=window)]
    shapes = {"x": shape, "c": shape}
    for index, order in enumerate(orders):
        turned, result = f"turned{index}", f"result{index}"
        ops.append(TpuPermute(name=turned, inputs=("c",), output=turned, order=order))
        ops.append(TpuActivation(name=result, inputs=(turned,), output=result, function="sigmoid"))
        shapes |= dict.fromkeys((turned, result), tuple(shape[axis] for axis in order))
    results = tuple(op.output for op in ops[2::2])
    graph = TpuGraph("net", {n: TpuTensor(n, each) for n, each in shapes.items()}, tuple(ops), ("x",), results)
    ranges = dict.fromkeys(shapes, ValueRange(-4.0, 4.0, -4.0, 4.0))
    ready = lower_graph(tpu_toolchain, graph, CompileOptions(chip), tmp_path, ranges=ranges).ready
    compile_groups(tpu_toolchain, ready, keep=tmp_path / "groups")
    final = final_ops((tmp_path / "groups" / "final.mlir").read_text(encoding="utf-8"))
    left = [op.in_group for op in final if op.kind == "Permute"]  # the others are maps of stores and loads
    assert left
    assert not any(left)
    assert any(op.in_group for op in final)
    turns = [op for function in ready.functions for op in function.graph.ops if op.kind == "permute"]
    assert len(turns) == len(orders)
    assert all(op.not_local for op in turns)
