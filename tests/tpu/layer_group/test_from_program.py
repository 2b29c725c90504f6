"""Our own ops as the planner sees them: sizes as the compiler packs them, and groups on every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnkit.program import Window
from nnkit_tpu.chips import CHIPS
from nnkit_tpu.grouping import own_plan
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.program import (
    Mode,
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuGraph,
    TpuMatMul,
    TpuPool,
    TpuReshape,
    TpuSlice,
    TpuTensor,
)


def network(mode: Mode = "INT8") -> TpuGraph:
    generator = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return generator.normal(size=shape).astype(np.float32)

    same = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    ops = (
        TpuConv(
            name="c1", inputs=("x",), output="c1", weight=weight(16, 3, 3, 3), bias=weight(16), window=same, mode=mode
        ),
        TpuConv(
            name="c2",
            inputs=("c1",),
            output="c2",
            weight=weight(32, 16, 3, 3),
            bias=weight(32),
            window=same,
            mode=mode,
        ),
        TpuConv(
            name="c3",
            inputs=("c2",),
            output="c3",
            weight=weight(32, 32, 3, 3),
            bias=weight(32),
            window=same,
            mode=mode,
        ),
        TpuBinary(name="sum", inputs=("c2", "c3"), output="sum", function="add", mode=mode),
        TpuPool(name="p", inputs=("sum",), output="p", function="max", window=Window(2, 2, 2, 2), mode=mode),
        TpuDeconv(
            name="d",
            inputs=("p",),
            output="d",
            weight=weight(32, 32, 2, 2),
            bias=None,
            window=Window(2, 2, 2, 2),
            mode=mode,
        ),
        TpuConcat(name="cat", inputs=("d", "sum"), output="cat", axis=1, mode=mode),
        TpuActivation(name="act", inputs=("cat",), output="act", function="sigmoid", mode=mode),
        TpuPool(name="g", inputs=("act",), output="g", function="average", window=Window(16, 16), mode=mode),
        TpuReshape(name="flat", inputs=("g",), output="flat", mode=mode),
        TpuMatMul(name="fc", inputs=("flat",), output="fc", weight=weight(64, 10), mode=mode),
    )
    shapes = {
        "x": (1, 3, 16, 16),
        "c1": (1, 16, 16, 16),
        **dict.fromkeys(("c2", "c3", "sum"), (1, 32, 16, 16)),
        "p": (1, 32, 8, 8),
        "d": (1, 32, 16, 16),
        **dict.fromkeys(("cat", "act"), (1, 64, 16, 16)),
        "g": (1, 64, 1, 1),
        "flat": (1, 64),
        "fc": (1, 10),
    }
    return TpuGraph("net", {name: TpuTensor(name, shape) for name, shape in shapes.items()}, ops, ("x",), ("fc",))


def test_weights_are_as_wide_as_the_compiler_packs_them() -> None:
    # As in the compiler's lowered programs of this network: 1x32x1x640 (c3) on bm1684x, 1x32x1x304 on bm1688,
    # 1x32x9x32 and 1x32x1x9 on cv181x.
    big = group_graph(network(), CHIPS["bm1684x"])
    assert big.weights["c3:coefficients"].shape == (1, 32, 1, 640)
    small = group_graph(network(), CHIPS["bm1688"])
    assert small.weights["c3:coefficients"].shape == (1, 32, 1, 304)
    vision = group_graph(network(), CHIPS["cv181x"])
    assert vision.weights["c3:filter"].shape == (1, 32, 9, 32)
    assert vision.weights["c3:bias"].shape == (1, 32, 1, 9)


def test_widths_follow_the_precision() -> None:
    graph = group_graph(network("F16"), CHIPS["bm1684x"])
    assert graph.tensors["c1"].dtype_bytes == 2
    assert graph.weights["c3:filter"].dtype_bytes == 2


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x", "cv180x"])
def test_groups_end_where_a_layer_needs_global_memory(chip: str) -> None:
    graph = group_graph(network(), CHIPS[chip])
    plan = plan_groups(graph, CostModel(CHIPS[chip]))
    assert plan.groups
    ends = {boundary.before: boundary.rule for boundary in plan.boundaries}
    assert ends.get("fc", ends.get("flat")) == "not local"


def test_slices_of_one_split_are_told_apart() -> None:
    """Both carry the layer's name. A group that holds one of them gives out what the other one reads."""
    common: dict[str, Any] = {"name": "split", "steps": (1, 1, 1, 1)}
    ops = (
        TpuActivation(name="act", inputs=("x",), output="y", function="relu", mode="INT8"),
        TpuSlice(**common, inputs=("y",), output="a", offsets=(0, 0, 0, 0), ends=(1, 4, 8, 8), mode="INT8"),
        TpuSlice(**common, inputs=("y",), output="b", offsets=(0, 4, 0, 0), ends=(1, 8, 8, 8), mode="INT8"),
        TpuBinary(name="sum", inputs=("a", "b"), output="z", function="add", mode="INT8"),
    )
    half = (1, 4, 8, 8)
    shapes = {"x": (1, 8, 8, 8), "y": (1, 8, 8, 8), "a": half, "b": half, "z": half}
    net = TpuGraph("net", {name: TpuTensor(name, shape) for name, shape in shapes.items()}, ops, ("x",), ("z",))
    graph = group_graph(net, CHIPS["bm1684x"])
    assert [op.name for op in graph.ops] == ["act", "split", "split:b", "sum"]
    assert graph.group_outputs(graph.ops[:2]) == ("y", "a")
    plan = own_plan(net, "bm1684x", lambda: None)  # where layers are told by their own names
    assert list(plan["layer_cycles"]) == ["act", "split", "sum"]
    assert {name for group in plan["groups"] for name in group["ops"]} | {*plan["global_layers"]} == {
        *plan["layer_cycles"]
    }
