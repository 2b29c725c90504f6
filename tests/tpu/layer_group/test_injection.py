"""Our groups in the vendor's compiler: replay, refusal, order, and the same results on its chip model's program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ToolError
from nnkit.program import Window
from nnkit_tpu.chips import Chip
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.grouping import choose_groups
from nnkit_tpu.layer_group import injection
from nnkit_tpu.layer_group.audit import Audit, audit_local_memory
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.from_lowered import LoweredFunction
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups
from nnkit_tpu.layer_group.slices import SliceCount, SlicePlan, slice_group
from nnkit_tpu.layer_group.tune import Budget, best_disjoint, tune
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuBinary, TpuConv, TpuGraph, TpuTensor
from nnkit_tpu.toolchain import Toolchain


def network() -> TpuGraph:
    """Four convolutions with a residual sum, 32 x 32."""
    generator = np.random.default_rng(5)

    def conv(name: str, source: str, inputs: int, outputs: int) -> TpuConv:
        weight = generator.normal(0, 0.1, (outputs, inputs, 3, 3)).astype(np.float32)
        bias = generator.normal(0, 0.1, outputs).astype(np.float32)
        window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
        return TpuConv(name=name, inputs=(source,), output=name, weight=weight, bias=bias, window=window, relu=True)

    ops = (
        conv("c1", "input", 3, 64),
        conv("c2", "c1", 64, 64),
        conv("c3", "c2", 64, 64),
        TpuBinary(name="sum", inputs=("c1", "c3"), output="sum", function="add", relu=True),
        conv("c4", "sum", 64, 16),
    )
    channels = {"input": 3, "c1": 64, "c2": 64, "c3": 64, "sum": 64, "c4": 16}
    tensors = {name: TpuTensor(name, (1, count, 32, 32)) for name, count in channels.items()}
    return TpuGraph("net", tensors, ops, ("input",), ("c4",))


@pytest.fixture(scope="module", params=["bm1684x", "bm1688", "cv181x"])
def program(
    request: pytest.FixtureRequest, tpu_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> LoweredProgram:
    graph = network()
    ranges = dict.fromkeys(graph.tensors, ValueRange(-4.0, 4.0, -4.0, 4.0))
    folder = tmp_path_factory.mktemp(request.param)
    return lower_graph(tpu_toolchain, graph, CompileOptions(request.param), folder, ranges=ranges).ready


def test_a_replay_gives_the_vendors_own_cost(
    tpu_toolchain: Toolchain, program: LoweredProgram, tmp_path: Path
) -> None:
    vendor = compile_groups(tpu_toolchain, program, keep=tmp_path)
    assert vendor.audit == audit_local_memory((tmp_path / "final.mlir").read_text(), program.chip)
    assert vendor.audit.conflicts == ()
    again = compile_groups(tpu_toolchain, program, vendor.groups)
    assert again.groups == vendor.groups
    assert again.cost == vendor.cost
    assert again.traffic == vendor.traffic
    assert (vendor.profile is None) == program.chip.name.startswith("cv")


def test_our_slices_are_taken_and_seen_in_the_traffic(tpu_toolchain: Toolchain, program: LoweredProgram) -> None:
    function = program.functions[-1]
    names = [op.output for op in function.graph.ops]
    first, last = names.index("c2"), names.index("c3")
    for count in (SliceCount(1, 1), SliceCount(1, 4)):
        outcome = compile_groups(tpu_toolchain, program, {function.name: (InjectedGroup(first, last, count),)})
        assert outcome.refused == ""
        (group,) = outcome.groups[function.name]
        assert (group.first, group.last) == (first, last)
        # The cv18xx compiler cuts finer where its placement needs it.
        assert group.slices == count or (program.chip.name.startswith("cv") and count.total == 1)
        # The compiler's slices of c1, halos included, are those of our own plan.
        slices = slice_group(function.graph, function.graph.ops[first : last + 1], group.slices)
        assert isinstance(slices, SlicePlan)
        rows = sum(part.rows.length for part in slices.parts["c1"])
        alone = compile_groups(tpu_toolchain, program, {function.name: ()})
        assert outcome.traffic is not None
        assert alone.traffic is not None
        # c2's output is neither stored nor loaded any more; c1 is loaded with its halo.
        saved = 64 * 32 * 32 - 64 * (rows - 32) * 32
        assert alone.traffic.load_bytes - outcome.traffic.load_bytes == saved
        assert alone.traffic.store_bytes - outcome.traffic.store_bytes == 64 * 32 * 32
        assert isinstance(outcome.audit, Audit)
        assert outcome.audit.groups == 1
        # In every slice: load of c1, both convolutions, store; of both convolutions' weights once or twice each.
        assert outcome.audit.actions >= 4 * group.slices.total + 2


def test_a_group_that_cannot_be_is_refused_with_a_reason(tpu_toolchain: Toolchain, program: LoweredProgram) -> None:
    function = program.functions[-1]
    whole = InjectedGroup(0, len(function.graph.ops) - 2, SliceCount(1, 64))
    outcome = compile_groups(tpu_toolchain, program, {function.name: (whole,)})
    assert "forming layer groups" in outcome.refused
    assert outcome.cost > 1 << 60


def test_tuning_is_never_worse_and_passes_the_audit(tpu_toolchain: Toolchain, program: LoweredProgram) -> None:
    tuning = tune(tpu_toolchain, program, CostModel(program.chip), Budget(groups=6, steps=4, orders=1))
    assert tuning.best.cost <= tuning.vendor.cost
    assert (tuning.choice == "vendor's cuts") == (tuning.best is tuning.vendor)
    assert tuning.best.audit is not None
    assert tuning.best.audit.conflicts == ()
    assert tuning.best.audit.groups == sum(len(groups) for groups in tuning.best.groups.values())


def test_a_candidate_that_fails_the_check_is_not_taken(tpu_toolchain: Toolchain, program: LoweredProgram) -> None:
    seen = []

    def check(vendor: Outcome, candidate: Outcome) -> str:
        seen.append(candidate.cost < vendor.cost)
        return "its results differ"

    tuning = tune(tpu_toolchain, program, CostModel(program.chip), Budget(groups=4, steps=2, orders=1), check)
    assert tuning.best is tuning.vendor
    assert all(seen)
    refused = [trial.refused for trial in tuning.trials if trial.refused == "its results differ"]
    assert len(refused) == len(seen)


def test_the_best_disjoint_groups_by_hand() -> None:
    def group(first: int, last: int) -> InjectedGroup:
        return InjectedGroup(first, last, None)

    savings = {group(0, 3): 10, group(2, 5): 12, group(4, 7): 9, group(6, 7): 1}
    assert best_disjoint(savings, 8) == (group(0, 3), group(4, 7))
    assert best_disjoint({**savings, group(2, 5): 30}, 8) == (group(2, 5), group(6, 7))
    assert best_disjoint({}, 8) == ()


def test_a_search_that_does_not_end_in_time_gives_way_to_groups_that_fit(
    tpu_toolchain: Toolchain, program: LoweredProgram, tmp_path: Path
) -> None:
    """The compiler behind a script that hangs where it is to search."""
    slow = tmp_path / "slow"
    (slow / "bin").mkdir(parents=True)
    script = f'#!/bin/sh\ncase "$*" in *layer-group=opt=2*) sleep 600;; esac\nexec {tpu_toolchain.compiler} "$@"\n'
    (slow / "bin" / "tpuc-opt").write_text(script, encoding="utf-8")
    (slow / "bin" / "tpuc-opt").chmod(0o755)
    (slow / "lib").symlink_to(tpu_toolchain.libraries)
    fitting = compile_groups(tpu_toolchain, program, search=False)
    outcome = compile_groups(replace(tpu_toolchain, root=slow, timeout_s=5.0), program)
    assert not fitting.set_aside
    assert outcome.set_aside == "stopped: groups of as many layers as fit stand in"
    assert outcome.groups == fitting.groups
    assert outcome.cost == fitting.cost


def test_groups_that_the_audit_refutes_are_not_released(
    tpu_toolchain: Toolchain, program: LoweredProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuting(final: str, chip: Chip) -> Audit:
        found = audit_local_memory(final, chip)
        return replace(found, conflicts=("group 0: a byte is lost",)) if found.groups else found

    given = compile_groups(tpu_toolchain, program).groups
    monkeypatch.setattr(injection, "audit_local_memory", refuting)
    outcome = compile_groups(tpu_toolchain, program)
    assert outcome.set_aside == "refuted (group 0: a byte is lost): no groups stand in"
    assert not any(outcome.groups.values())
    assert outcome.audit == Audit(0, 0, ())
    assert outcome.model
    assert "a byte is lost" in compile_groups(tpu_toolchain, program, given).refused


def test_what_cannot_be_followed_is_told_and_not_failed(
    tpu_toolchain: Toolchain, program: LoweredProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strange(text: str, chip: Chip) -> tuple[LoweredFunction, ...]:
        raise ToolError("a line that cannot be read: %5 = fresh", where="the compiler's lowered program")

    monkeypatch.setattr(injection, "read_lowered", strange)
    unread = LoweredProgram.read(program.folder, program.file, program.name, program.chip, program.mode)
    assert (unread.functions, unread.unread) == ((), "a line that cannot be read: %5 = fresh")
    choice = choose_groups(tpu_toolchain, unread, TpuOptions(chip=program.chip.name), tmp_path)
    vendor = compile_groups(tpu_toolchain, program)
    assert choice.outcome.cost == vendor.cost
    assert choice.report["not_planned"] == unread.unread
    monkeypatch.setattr(
        injection, "audit_local_memory", lambda final, chip: Audit(1, 0, (), ("group 0 cannot be followed: %5",))
    )
    assert compile_groups(tpu_toolchain, program).audit == Audit(1, 0, (), ("group 0 cannot be followed: %5",))
    assert compile_groups(tpu_toolchain, program, vendor.groups).refused == "group 0 cannot be followed: %5"
