"""Our groups in the vendor's compiler: replay, refusal, order, and the same results on its chip model's program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit_tpu.layer_group.audit import local_memory_conflicts
from nnkit_tpu.layer_group.chips import CHIPS
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.executor import execute
from nnkit_tpu.layer_group.groups import GroupedGraph, plan_cuts
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups
from nnkit_tpu.layer_group.slices import SliceCount
from nnkit_tpu.layer_group.tune import Budget, best_disjoint, tune
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.toolchain.find import Toolchain, find_toolchain
from nnkit_tpu.toolchain.run import run_tpuc_opt

_LOWERING = (
    "--init --struct-optimize --shape-infer --canonicalize --extra-optimize"
    "|--processor-assign=chip={chip} mode=INT8 num_device=1 num_core=1 addr_mode=auto high_precision=False"
    "|--import-calibration-table=file=net.cal asymmetric=False|--processor-top-optimize"
    "|--convert-top-to-tpu=weightFileName=tpu_w.npz asymmetric=False doWinograd=False q_group_size=0"
    " q_symmetric=False matmul_perchannel=False gelu_mode=normal|--canonicalize --weight-fold"
    "|--strip-io-quant=quant_input=False quant_output=False"
    "|--processor-tpu-optimize --dev-parallel --weight-reorder|--subnet-divide=dynamic=False"
    "|--op-reorder --topo-sort --deinit"
)


def passes(chip: str) -> list[str]:
    arguments = []
    for part in _LOWERING.format(chip=chip).split("|"):
        arguments += [part] if "=" in part else part.split()
    return arguments


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = find_toolchain()
    if found is None:
        pytest.skip("the TPU toolchain is not installed")
    return found


def write_top(folder: Path) -> None:
    """Four convolutions with a residual sum, 32 x 32, as Top MLIR with weights and a calibration table."""
    generator = np.random.default_rng(5)
    weights: dict[str, np.ndarray] = {}
    lines: list[str] = []
    counter = iter(range(1, 100))

    def kind(*shape: int) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    def weight(name: str, *shape: int) -> tuple[str, str]:
        weights[name] = generator.normal(0, 0.1, shape).astype(np.float32)
        value = f"%{next(counter)}"
        lines.append(f'{value} = "top.Weight"() : () -> {kind(*shape)} loc("{name}")')
        return value, kind(*shape)

    def conv(name: str, source: str, inputs: int, outputs: int) -> str:
        (w, wt), (b, bt) = weight(f"{name}_w", outputs, inputs, 3, 3), weight(f"{name}_b", outputs)
        value = f"%{next(counter)}"
        lines.append(
            f'{value} = "top.Conv"({source}, {w}, {b}) {{kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1],'
            f" group=1:i64, dilations=[1,1], do_relu=true, relu_limit=-1.0:f64}} :"
            f" ({kind(1, inputs, 32, 32)}, {wt}, {bt}) ->"
            f' {kind(1, outputs, 32, 32)} loc("{name}")'
        )
        return value

    lines.append(
        '%0 = "top.Input"(%arg0) {channel_format="nchw", do_preprocess=true, keep_aspect_ratio=false,'
        ' keep_ratio_mode="letterbox", mean=[0.0,0.0,0.0], pad_type="center", pad_value=0:i64, pixel_format="bgr",'
        f' resize_dims=[32,32], scale=[1.0,1.0,1.0], yuv_type=""}} : ({kind(1, 3, 32, 32)}) -> {kind(1, 3, 32, 32)}'
        ' loc("input")'
    )
    left = conv("c1", "%0", 3, 64)
    right = conv("c3", conv("c2", left, 64, 64), 64, 64)
    total = f"%{next(counter)}"
    lines.append(
        f'{total} = "top.Add"({left}, {right}) {{do_relu=true, relu_limit=-1.0:f64, is_scalar=false}} :'
        f' ({kind(1, 64, 32, 32)}, {kind(1, 64, 32, 32)}) -> {kind(1, 64, 32, 32)} loc("sum")'
    )
    last = conv("c4", total, 64, 16)
    body = "\n".join(f"    {line}" for line in lines)
    (folder / "net.mlir").write_text(
        'module @net attributes {module.chip="ALL", module.platform="ONNX", module.state="TOP_F32",'
        ' module.top_run_mode="STATIC", module.weight_file="net_w.npz"} {\n'
        f"  func.func @main(%arg0: {kind(1, 3, 32, 32)}) -> {kind(1, 16, 32, 32)} {{\n{body}\n"
        f"    return {last} : {kind(1, 16, 32, 32)}\n  }}\n}}\n"
    )
    np.savez(folder / "net_w.npz", **weights)
    table = [f"{name} 4.0000000 -4.0000000 4.0000000" for name in ("input", "c1", "c2", "c3", "sum", "c4")]
    (folder / "net.cal").write_text("\n".join(table) + "\n")


@pytest.fixture(scope="module", params=["bm1684x", "bm1688", "cv181x"])
def program(
    request: pytest.FixtureRequest, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> LoweredProgram:
    folder = tmp_path_factory.mktemp(request.param)
    write_top(folder)
    arguments = ["net.mlir", *passes(request.param), "-o", "lowered.mlir"]
    run_tpuc_opt(toolchain, arguments, folder, log_name="lower.log", what="lowering")
    return LoweredProgram.read(folder, "lowered.mlir", "net", CHIPS[request.param], "INT8")


def test_a_replay_gives_the_vendors_own_cost(toolchain: Toolchain, program: LoweredProgram, tmp_path: Path) -> None:
    vendor = compile_groups(toolchain, program, keep=tmp_path)
    assert local_memory_conflicts((tmp_path / "final.mlir").read_text(), program.chip) == ()
    again = compile_groups(toolchain, program, vendor.groups)
    assert again.groups == vendor.groups
    assert again.cost == vendor.cost
    assert again.traffic == vendor.traffic
    assert (vendor.profile is None) == program.chip.name.startswith("cv")


def test_our_slices_are_taken_and_seen_in_the_traffic(toolchain: Toolchain, program: LoweredProgram) -> None:
    function = program.functions[-1]
    names = [op.output for op in function.graph.ops]
    first, last = names.index("c2"), names.index("c3")
    for count in (SliceCount(1, 1), SliceCount(1, 4)):
        outcome = compile_groups(toolchain, program, {function.name: (InjectedGroup(first, last, count),)})
        assert outcome.refused == ""
        (group,) = outcome.groups[function.name]
        assert (group.first, group.last) == (first, last)
        # The cv18xx compiler cuts finer where its placement needs it.
        assert group.slices == count or (program.chip.name.startswith("cv") and count.total == 1)
        # The compiler's slices of c1, halos included, are those of our own plan.
        plan = plan_cuts(function.graph, CostModel(program.chip), [(first, last, group.slices)])
        assert isinstance(plan, GroupedGraph)
        rows = sum(part.rows.length for part in plan.groups[0].slices.parts["c1"])
        alone = compile_groups(toolchain, program, {function.name: ()})
        assert outcome.traffic is not None
        assert alone.traffic is not None
        # c2's output is neither stored nor loaded any more; c1 is loaded with its halo.
        saved = 64 * 32 * 32 - 64 * (rows - 32) * 32
        assert alone.traffic.load_bytes - outcome.traffic.load_bytes == saved
        assert alone.traffic.store_bytes - outcome.traffic.store_bytes == 64 * 32 * 32
        assert execute(program.chip, plan.graph, plan.parts).proven


def test_a_group_that_cannot_be_is_refused_with_a_reason(toolchain: Toolchain, program: LoweredProgram) -> None:
    function = program.functions[-1]
    whole = InjectedGroup(0, len(function.graph.ops) - 2, SliceCount(1, 64))
    outcome = compile_groups(toolchain, program, {function.name: (whole,)})
    assert "forming layer groups" in outcome.refused
    assert outcome.cost > 1 << 60


def test_tuning_is_never_worse_and_proven(toolchain: Toolchain, program: LoweredProgram) -> None:
    tuning = tune(toolchain, program, CostModel(program.chip), Budget(groups=6, steps=4, orders=1))
    assert tuning.best.cost <= tuning.vendor.cost
    assert (tuning.choice == "vendor's cuts") == (tuning.best is tuning.vendor)
    function = tuning.program.functions[-1]
    cuts = [(group.first, group.last, group.slices) for group in tuning.best.groups[function.name]]
    plan = plan_cuts(function.graph, tuning.model, cuts)
    assert isinstance(plan, GroupedGraph)
    assert execute(program.chip, plan.graph, plan.parts).proven


def test_a_candidate_that_fails_the_check_is_not_taken(toolchain: Toolchain, program: LoweredProgram) -> None:
    seen = []

    def check(vendor: Outcome, candidate: Outcome) -> str:
        seen.append(candidate.cost < vendor.cost)
        return "its results differ"

    tuning = tune(toolchain, program, CostModel(program.chip), Budget(groups=4, steps=2, orders=1), check)
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
