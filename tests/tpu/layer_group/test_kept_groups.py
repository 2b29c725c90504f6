"""The compiler's groups on our own ops: fused ones are found again, and the executor computes the chip's integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.program.ops import Window
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.layer_group.chip_arithmetic import ChipArithmetic
from nnkit_tpu.layer_group.chips import chip_named
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.executor import execute
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.groups import GroupedGraph, plan_cuts
from nnkit_tpu.layer_group.injection import compile_groups
from nnkit_tpu.layer_group.kept_groups import prove_on_our_ops
from nnkit_tpu.layer_group.slices import Refusal, SliceCount
from nnkit_tpu.layer_group.tune import Tuning
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.program import TpuActivation, TpuConcat, TpuConv, TpuGraph, TpuTensor
from nnkit_tpu.quantize import Precision, graph_of, to_program
from nnkit_tpu.toolchain import Toolchain

RANGE = ValueRange(-4.0, 4.0, -4.0, 4.0)


def network() -> TpuGraph:
    """Convolutions with activations of their own, which the compiler fuses, and a concatenation."""
    generator = np.random.default_rng(7)

    def conv(name: str, source: str, inputs: int) -> TpuConv:
        weight = generator.normal(0, 0.1, (32, inputs, 3, 3)).astype(np.float32)
        window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
        return TpuConv(name=name, inputs=(source,), output=name, weight=weight, bias=None, window=window)

    ops = (
        conv("c1", "x", 3),
        TpuActivation(name="r1", inputs=("c1",), output="r1", function="relu"),
        conv("c2", "r1", 32),
        TpuActivation(name="r2", inputs=("c2",), output="r2", function="relu"),
        conv("c3", "r1", 32),
        TpuConcat(name="cat", inputs=("r2", "c3"), output="cat", axis=1),
    )
    channels = {"x": 3, "c1": 32, "r1": 32, "c2": 32, "r2": 32, "c3": 32, "cat": 64}
    tensors = {name: TpuTensor(name, (1, count, 40, 40)) for name, count in channels.items()}
    return TpuGraph("net", tensors, ops, ("x",), ("cat",))


@pytest.mark.parametrize("chip", ["bm1688", "cv181x"])
def test_groups_of_fused_ops(chip: str, tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    graph = network()
    ranges = dict.fromkeys(graph.tensors, RANGE)
    quantised = graph_of(to_program(graph, ranges, Precision(chip, "INT8")))
    program = lower_graph(tpu_toolchain, graph, CompileOptions(chip), tmp_path, ranges=ranges).ready
    function = program.functions[-1]
    names = [op.output for op in function.graph.ops]
    assert "c1" not in names  # fused into r1
    given = InjectedGroup(names.index("r1"), names.index("cat"), SliceCount(1, 4))
    outcome = compile_groups(tpu_toolchain, program, {function.name: (given,)})
    assert not outcome.refused
    tuning = Tuning(outcome, outcome, program, "given", (), CostModel(program.chip))
    found = prove_on_our_ops(tuning, quantised)
    assert not isinstance(found, Refusal)
    execution, arithmetic = found
    assert execution.proven
    assert execution.values == 64 * 40 * 40  # of one group, only its output is stored
    assert set(arithmetic.exact) == {op.name for op in graph.ops}


def test_other_weights_than_the_reference_are_noticed() -> None:
    """The executor reads weights back from local memory: what is packed wrong shows in the values."""
    graph = network()
    program = to_program(graph, dict.fromkeys(graph.tensors, RANGE), Precision("bm1688", "INT8"))
    quantised = graph_of(program)
    model = CostModel(chip_named("bm1688"))
    planned = group_graph(quantised, model.chip)
    plan = plan_cuts(planned, model, [(0, len(planned.ops) - 1, SliceCount(1, 2))])
    assert isinstance(plan, GroupedGraph)
    assert execute(model.chip, planned, plan.parts, arithmetic=ChipArithmetic(quantised, planned)).proven

    class WithAnotherTap(ChipArithmetic):
        def values(self, graph, seed):  # type: ignore[no-untyped-def]
            inputs, weights = super().values(graph, seed)
            changed = {name: value.copy() for name, value in weights.items()}
            changed["c3:coefficients"].reshape(-1)[-1] ^= 1
            return inputs, changed

    found = execute(model.chip, planned, plan.parts, arithmetic=WithAnotherTap(quantised, planned))
    assert found.mismatches > 0
    assert not found.violations
