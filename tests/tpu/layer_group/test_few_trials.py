"""Groups for the cv18xx: what we say of the compiler's placement and bytes is what it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tpu_lowered import lowered_program, tpu_graph
from benchmarks.tpu_networks import squeezenet
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.few_trials import MOST_COMPILATIONS, few_trials
from nnkit_tpu.layer_group.groups import GroupedGraph, global_cycles, plan_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, compile_groups, groups_of
from nnkit_tpu.layer_group.model import GroupOp
from nnkit_tpu.layer_group.plan import quick_plan
from nnkit_tpu.layer_group.rules import compiler_rules
from nnkit_tpu.layer_group.slices import Refusal, SliceCount
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.toolchain import Toolchain


@pytest.fixture(scope="module")
def program(tpu_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> LoweredProgram:
    """SqueezeNet 1.1 for the cv181x, on 111 x 111: then every row is read, and the compiler loads no others."""
    folder = tmp_path_factory.mktemp("squeezenet")
    graph = tpu_graph(squeezenet(1, 111), "squeezenet", folder)
    return lowered_program(tpu_toolchain, graph, CompileOptions("cv181x"), folder)


@pytest.mark.parametrize("first", [0, 4, 8, 13, 17, 21, 28, 33])
def test_what_finds_room_is_placed_by_the_compiler(
    first: int, tpu_toolchain: Toolchain, program: LoweredProgram
) -> None:
    """The fewest slices by our account are those that the compiler makes when it is asked for one."""
    function = program.functions[-1]
    model = CostModel(program.chip, counts_bytes=True)
    last = min(first + 4, len(function.graph.ops) - 2)
    found = quick_plan(function.graph, function.graph.ops[first : last + 1], model, compiler_rules(program.chip))
    asked = InjectedGroup(first, last, SliceCount(1, 1))
    made = compile_groups(tpu_toolchain, program, {function.name: (asked,)})
    if isinstance(found, Refusal):
        assert made.refused
    else:
        assert not made.refused
        assert made.groups[function.name] == (InjectedGroup(first, last, found[1]),)


def test_bytes_are_those_of_the_compilers_final_program(tpu_toolchain: Toolchain, program: LoweredProgram) -> None:
    model = CostModel(program.chip, counts_bytes=True, transfer_bytes=0)
    rules = compiler_rules(program.chip)
    # Of a third of the memory: groups of every length and number of slices, all of which the compiler can place.
    narrow = replace(model, chip=replace(program.chip, lane_bytes=12 << 10))
    plans = {f.name: plan_groups(f.graph, narrow, orders=False, rules=rules) for f in program.functions}
    outcome = compile_groups(tpu_toolchain, program, {name: groups_of(plan) for name, plan in plans.items()})
    assert not outcome.refused
    assert {name: groups_of(plan) for name, plan in plans.items()} == outcome.groups
    assert outcome.traffic is not None
    assert sum(bytes_of(plan, model) for plan in plans.values()) == outcome.traffic.total_bytes
    assert sum(plan.cycles for plan in plans.values()) == outcome.traffic.total_bytes


def bytes_of(plan: GroupedGraph, model: CostModel) -> int:
    alone = sum(global_cycles(plan.graph, part, model) for part in plan.parts if isinstance(part, GroupOp))
    return plan.load_bytes + plan.store_bytes + alone


def test_a_refusal_names_the_group(tpu_toolchain: Toolchain, program: LoweredProgram) -> None:
    function = program.functions[-1]
    names = [op.name for op in function.graph.ops]
    squeeze = names.index("fire3_squeeze_relu")
    fits, does_not = InjectedGroup(0, 2, SliceCount(1, 2)), InjectedGroup(squeeze, squeeze + 2, SliceCount(1, 4))
    outcome = compile_groups(tpu_toolchain, program, {function.name: (fits, does_not)})
    assert outcome.refused
    assert outcome.culprit == (function.name, does_not)


def test_ours_halves_the_bytes_and_computes_the_same(
    tpu_toolchain: Toolchain, program: LoweredProgram, tmp_path: Path
) -> None:
    tuning = few_trials(tpu_toolchain, program, CostModel(program.chip), tmp_path).tuning
    assert len(tuning.trials) <= MOST_COMPILATIONS
    vendor, ours = tuning.vendor.traffic, tuning.best.traffic
    assert vendor is not None
    assert ours is not None
    assert ours.loads <= vendor.loads
    assert ours.stores <= vendor.stores
    assert ours.total_bytes < 0.6 * vendor.total_bytes
    assert tuning.best.audit is not None
    assert tuning.best.audit.conflicts == ()
    image = np.random.default_rng(0).normal(0, 2, (1, 3, 111, 111)).astype(np.float32)
    results = []
    for name, outcome in (("vendor", tuning.vendor), ("ours", tuning.best)):
        file = tmp_path / f"{name}.cvimodel"
        file.write_bytes(outcome.model)
        results.append(run_on_chip_model(tpu_toolchain, file, program.chip.name, {"input": image}))
    assert results[0].keys() == results[1].keys()
    for name, expected in results[0].items():
        assert len(np.unique(expected)) > 20
        np.testing.assert_array_equal(results[1][name], expected)
