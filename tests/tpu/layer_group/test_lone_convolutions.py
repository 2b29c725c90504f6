"""Convolutions that the compiler fails on outside of layer groups: they build, exactly; else they are named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_tpu.compile import CompileOptions, LoweredFiles, lower_graph
from nnkit_tpu.layer_group import injection
from nnkit_tpu.layer_group.final_program import final_ops
from nnkit_tpu.layer_group.injection import compile_without_groups
from nnkit_tpu.model_run import run_model
from nnkit_tpu.program import TpuConv, TpuGraph, TpuTensor
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.toolchain import Toolchain
from nnkit_tpu.toolchain.run import CompilerError

CHIPS = ["bm1684x", "bm1688"]
RANGES = dict.fromkeys(("x", "y"), ValueRange(-4.0, 4.0, -4.0, 4.0))


def _graph(groups: int = 5, inputs: int = 24, outputs: int = 20) -> TpuGraph:
    weight = np.random.default_rng(4).normal(0, 0.1, (groups * outputs, inputs, 3, 3)).astype(np.float32)
    window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    op = TpuConv(name="y", inputs=("x",), output="y", weight=weight, bias=None, window=window, group=groups)
    shapes = {"x": (1, groups * inputs, 7, 7), "y": (1, groups * outputs, 7, 7)}
    return TpuGraph("net", {n: TpuTensor(n, shape) for n, shape in shapes.items()}, (op,), ("x",), ("y",))


def _lowered(
    toolchain: Toolchain, graph: TpuGraph, chip: str, folder: Path, modes: Mapping[str, str] | None = None
) -> LoweredFiles:
    return lower_graph(toolchain, graph, CompileOptions(chip), folder, ranges=RANGES, modes=modes)


@pytest.mark.parametrize(
    ("chip", "graph"),
    [
        *((chip, _graph()) for chip in CHIPS),
        ("bm1688", _graph(2, 48, 24)),  # which the compiler takes outside of groups, and computes wrongly
    ],
)
def test_without_other_groups_it_has_one_and_is_exact(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, graph: TpuGraph
) -> None:
    lowered = _lowered(tpu_toolchain, graph, chip, tmp_path)
    outcome = compile_without_groups(tpu_toolchain, lowered.ready, tmp_path / "alone", "asked")
    assert {op.name for op in final_ops((tmp_path / "alone" / "final.mlir").read_text()) if op.in_group} > {"y"}
    program = to_program(graph, RANGES, Precision(chip, "INT8"))
    model = tmp_path / "net.bmodel"
    model.write_bytes(outcome.model)
    build = {"chip": chip, "names": lowered.locations, "pixels": {}, "batch": 1}
    x = np.random.default_rng(3).normal(0, 1.5, graph.tensors["x"].shape[1:]).astype(np.float32)
    given = quantized_inputs(program, Sample("x", {"x": x}))
    (computed,) = run_model(tpu_toolchain, model, program, build, [given], program.outputs)
    expected = simulate(program, given)["y"]
    assert len(np.unique(expected)) > 50
    assert np.array_equal(computed["y"], expected)


@pytest.mark.parametrize("chip", CHIPS)
def test_where_it_fits_no_group_it_is_named_and_the_remedy_works(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injection, "groups_around", lambda *_: iter(()))
    lowered = _lowered(tpu_toolchain, _graph(), chip, tmp_path)
    with pytest.raises(CompilerError) as caught:
        compile_without_groups(tpu_toolchain, lowered.ready, tmp_path / "alone", "asked")
    assert caught.value.where == "y"
    assert caught.value.advice.startswith("tag it `hp`")
    (tmp_path / "hp").mkdir()
    lifted = _lowered(tpu_toolchain, _graph(), chip, tmp_path / "hp", {"y": "F16"})
    assert compile_without_groups(tpu_toolchain, lifted.ready, tmp_path / "hp" / "alone", "asked").model
