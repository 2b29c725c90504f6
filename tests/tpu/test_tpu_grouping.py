"""Which groups a build takes, and what its report says of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.grouping import Choice, choose_groups, own_plan, without_wrong_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuConv, TpuGraph, TpuTensor
from nnkit_tpu.quantize import Precision, graph_of, to_program
from nnkit_tpu.toolchain import Toolchain

Lowering: TypeAlias = Callable[[str], LoweredProgram]
RANGE = ValueRange(-4.0, 4.0, -4.0, 4.0)


def quantised(chip: str) -> TpuGraph:
    generator = np.random.default_rng(0)
    window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    ops = []
    for index, source in enumerate(("x", "c0", "c1")):
        weight = generator.normal(0, 0.2, (32, 3 if index == 0 else 32, 3, 3)).astype(np.float32)
        name = f"c{index}"
        ops.append(TpuConv(name=name, inputs=(source,), output=name, weight=weight, bias=None, window=window))
    shapes = {"x": 3, "c0": 32, "c1": 32, "c2": 32}
    tensors = {name: TpuTensor(name, (1, channels, 24, 24)) for name, channels in shapes.items()}
    graph = TpuGraph("net", tensors, tuple(ops), ("x",), ("c2",))
    return graph_of(to_program(graph, dict.fromkeys(tensors, RANGE), Precision(chip, "INT8")))


@pytest.fixture(scope="module")
def lowered(tpu_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Lowering:
    """The network for a chip, lowered by the compiler: once for all tests, which leave it as it is."""

    @functools.cache
    def program(chip: str) -> LoweredProgram:
        graph = quantised(chip)
        folder = tmp_path_factory.mktemp(chip)
        ranges = dict.fromkeys(graph.tensors, RANGE)
        return lower_graph(tpu_toolchain, graph, CompileOptions(chip), folder, ranges=ranges).ready

    return program


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_our_plan_is_made_without_the_compiler(chip: str) -> None:
    plan = own_plan(quantised(chip), chip)
    grouped = [name for group in plan["groups"] for name in group["ops"]]
    assert sorted([*grouped, *plan["global_layers"]]) == ["c0", "c1", "c2"]
    assert plan["estimated_cycles"] > 0
    assert set(plan["layer_cycles"]) == {"c0", "c1", "c2"}
    assert min(plan["layer_cycles"].values()) > 0
    assert len(plan["ends"]) == len(plan["groups"]) + len(plan["global_layers"]) - 1


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_ours_takes_few_compilations_and_the_best_is_kept_and_audited(
    chip: str, lowered: Lowering, tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    program = lowered(chip)
    options = TpuOptions(chip=chip, layer_group="ours")
    choice = choose_groups(tpu_toolchain, program, options, tmp_path / "groups")
    costs = [trial["cost"] for trial in choice.report["trials"]]
    assert 2 <= len(costs) <= 5
    assert choice.outcome.cost == min(cost for cost in costs if cost is not None)
    assert choice.final.exists()
    assert choice.report["audit"]["groups"] >= 1
    assert choice.report["audit"]["conflicts"] == []


def test_quick_groups_compute_the_same_values(lowered: Lowering, tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    chip = "bm1684x"
    program = lowered(chip)
    values = {"x": np.random.default_rng(1).normal(0, 1.5, (1, 3, 24, 24)).astype(np.float32)}
    outputs = {}
    for asked in ("vendor", "quick"):
        options = TpuOptions(chip=chip, layer_group=asked)
        choice = choose_groups(tpu_toolchain, program, options, tmp_path / asked)
        assert choice.report["audit"]["conflicts"] == []
        assert len(choice.report["trials"]) == 1
        model = tmp_path / f"{asked}.bmodel"
        model.write_bytes(choice.outcome.model)
        (outputs[asked],) = run_on_chip_model(tpu_toolchain, model, chip, values).values()
    assert choice.report["choice"] == "as many layers as fit"
    assert np.ptp(outputs["vendor"]) > 0
    assert np.array_equal(outputs["vendor"], outputs["quick"])


def test_only_the_group_that_computes_something_else_is_left_out(
    lowered: Lowering, tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    program = lowered("bm1684x")
    ops = [op.name for op in program.functions[0].graph.ops]
    cut = ops.index("c1")
    two = {program.functions[0].name: [InjectedGroup(0, cut, None), InjectedGroup(cut + 1, len(ops) - 1, None)]}
    outcome = compile_groups(tpu_toolchain, program, two)
    assert [len(groups) for groups in outcome.groups.values()] == [2]
    options = TpuOptions(chip="bm1684x")
    chosen = Choice(outcome, tmp_path, {}, program)

    def wrong(first: int) -> Callable[[Outcome], bool]:
        return lambda each: any(group.first == first for groups in each.groups.values() for group in groups)

    for first, kept in ((0, cut + 1), (cut + 1, 0)):
        found = without_wrong_groups(
            tpu_toolchain, chosen, options, tmp_path / str(first), "refuted (a value)", wrong(first)
        )
        (groups,) = found.outcome.groups.values()
        assert [group.first for group in groups] == [kept]
        assert found.report["compiler_search"].startswith(
            "refuted (a value): layers alone stand in for the groups of"
        )
        assert found.final.exists()
    none = without_wrong_groups(
        tpu_toolchain, chosen, options, tmp_path / "none", "refuted (a value)", lambda _: True
    )
    assert none.report["choice"] == "no groups"
    theirs = compile_groups(tpu_toolchain, program).groups
    assert theirs != outcome.groups
    own = without_wrong_groups(
        tpu_toolchain, chosen, options, tmp_path / "own", "refuted (a value)", lambda each: each.groups != theirs
    )
    assert own.report["choice"] == "vendor's cuts"
    assert own.outcome.groups == theirs
    assert own.report["compiler_search"] == "refuted (a value): the compiler's own groups stand in"
    assert own.final.exists()
