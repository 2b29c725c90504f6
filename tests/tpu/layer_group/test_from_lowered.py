"""The compiler's lowered program as a graph for the planner: what our plan moves, by the compiler's own count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.injection import compile_groups, groups_of
from nnkit_tpu.layer_group.rules import whole_plan_rules
from nnkit_tpu.program import TpuActivation, TpuConv, TpuGraph, TpuOp, TpuTensor
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
