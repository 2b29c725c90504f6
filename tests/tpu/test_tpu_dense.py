"""Fully connected layers as products or convolutions: the same values, and what costs less."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.stats import ValueRange
from nnkit.importers import import_onnx
from nnkit.program import Window
from nnkit.simulate import simulate
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.dense import dense_layers
from nnkit_tpu.layer_group.vendor_files import read_profile, read_traffic
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import (
    TpuActivation,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuTensor,
)
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.toolchain import Toolchain

RANDOM = np.random.default_rng(3)


def network(channels: int, side: int, outputs: tuple[int, ...], *, pooled: bool) -> TpuGraph:
    """A convolution, its mean over the image (`pooled`) or not, flattened, and fully connected layers."""
    conv = TpuConv(
        name="c",
        inputs=("x",),
        output="c",
        weight=RANDOM.normal(0, 0.1, (channels, 8, 1, 1)).astype(np.float32),
        bias=None,
        window=Window(1, 1),
        relu=True,
    )
    ops: list[TpuOp] = [conv]
    shapes: dict[str, tuple[int, ...]] = {"x": (1, 8, side, side), "c": (1, channels, side, side)}
    if pooled:
        ops.append(TpuPool(name="p", inputs=("c",), output="p", function="average", window=Window(side, side)))
        shapes["p"] = (1, channels, 1, 1)
    inputs = channels if pooled else channels * side**2
    ops.append(TpuReshape(name="flat", inputs=(ops[-1].output,), output="flat"))
    shapes["flat"] = (1, inputs)
    for index, count in enumerate(outputs):
        weight = RANDOM.normal(0, inputs**-0.5, (inputs, count)).astype(np.float32)
        bias = RANDOM.normal(0, 0.1, count).astype(np.float32)
        name, source = f"fc{index}", ops[-1].output
        last = index == len(outputs) - 1
        ops.append(TpuMatMul(name=name, inputs=(source,), output=name, weight=weight, bias=bias, relu=not last))
        shapes[name], inputs = (1, count), count
    tensors = {name: TpuTensor(name, shape) for name, shape in shapes.items()}
    return TpuGraph("net", tensors, tuple(ops), ("x",), (ops[-1].output,))


def convolutions(graph: TpuGraph) -> set[str]:
    return {op.name for op in graph.ops if isinstance(op, TpuConv)} - {"c"}


def cost(toolchain: Toolchain, graph: TpuGraph, chip: str, folder: Path) -> int:
    """Cycles of the simulator; bytes of the final program where the chip's cycles are not told."""
    folder.mkdir()
    ranges = dict.fromkeys(graph.tensors, ValueRange(-4.0, 4.0, -4.0, 4.0))
    compile_graph(toolchain, graph, CompileOptions(chip), folder, ranges=ranges)
    if chip == "cv181x":
        return read_traffic((folder / "final.mlir").read_text()).total_bytes
    return read_profile((folder / "compiler_profile_0.txt").read_text(errors="replace")).end_cycles


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
@pytest.mark.parametrize(
    ("channels", "side", "outputs", "pooled"),
    [(512, 7, (1000,), True), (128, 7, (128,), True), (256, 4, (256,), False), (512, 7, (512, 10), True)],
)
def test_the_choice_is_what_costs_less(
    tpu_toolchain: Toolchain,
    tmp_path: Path,
    chip: str,
    channels: int,
    side: int,
    outputs: tuple[int, ...],
    pooled: bool,
) -> None:
    given = network(channels, side, outputs, pooled=pooled)
    all_convolutions = dense_layers(given, "cv181x", "BF16")
    assert len(convolutions(all_convolutions)) == len(outputs)
    costs = {
        name: cost(tpu_toolchain, graph, chip, tmp_path / name)
        for name, graph in (("products", given), ("convolutions", all_convolutions))
    }
    chosen = dense_layers(given, chip, "INT8")
    taken = costs["convolutions" if convolutions(chosen) else "products"]
    assert taken <= (1.01 if chip == "cv181x" else 1.03) * min(costs.values()), costs


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(16, 32, 10), (64, 192, 1000)])
def test_behind_a_mean_over_rows_the_choice_is_what_costs_less(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, rows: int, inputs: int, outputs: int
) -> None:
    first = TpuMatMul(
        name="m",
        inputs=("x",),
        output="m",
        weight=RANDOM.normal(0, 0.1, (inputs, inputs)).astype(np.float32),
        bias=np.zeros(inputs, np.float32),
    )
    mean = TpuReduce(name="r", inputs=("m",), output="r", function="mean", axes=(1,), keep_dims=False)
    last = TpuMatMul(
        name="fc",
        inputs=("r",),
        output="fc",
        weight=RANDOM.normal(0, 0.1, (inputs, outputs)).astype(np.float32),
        bias=np.zeros(outputs, np.float32),
    )
    shapes = {"x": (1, rows, inputs), "m": (1, rows, inputs), "r": (1, inputs), "fc": (1, outputs)}
    tensors = {name: TpuTensor(name, shape) for name, shape in shapes.items()}
    given = TpuGraph("net", tensors, (first, mean, last), ("x",), ("fc",))
    chosen = dense_layers(given, chip, "INT8")
    other = given if convolutions(chosen) else dense_layers(given, "cv181x", "BF16")
    assert bool(convolutions(other)) != bool(convolutions(chosen))
    ours, theirs = (
        cost(tpu_toolchain, graph, chip, tmp_path / name) for name, graph in (("ours", chosen), ("other", other))
    )
    assert ours <= theirs


def test_convolutions_give_the_same_values(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Flatten", ["r"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w0", "b0"], ["fc0"], transB=1),
        helper.make_node("HardSwish", ["fc0"], ["h"]),
        helper.make_node("MatMul", ["h", "w1"], ["fc1"]),
        helper.make_node("Sigmoid", ["fc1"], ["out"]),
    ]
    weights = {"w0": RANDOM.normal(0, 0.1, (8, 64)), "b0": RANDOM.normal(0, 1, 8), "w1": RANDOM.normal(0, 1, (8, 6))}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 4, 4])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 6])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "a.onnx"
    )
    given = lower(import_onnx(tmp_path / "a.onnx").model, "net")
    made = for_chip(given, "bm1684x", "F16")
    assert convolutions(made) == {"fc0", "fc1"} - {"c"}
    assert [op.kind for op in made.ops][-1] == "reshape"
    assert made.tensors["out"].shape == (1, 6)
    assert not any(isinstance(op, TpuMatMul) for op in made.ops)
    x = RANDOM.normal(0, 1, (4, 4, 4)).astype(np.float32)
    values = [
        simulate(to_program(each, {}, Precision("bm1684x", "F32")), {"x": x})["out"].ravel() for each in (given, made)
    ]
    assert np.abs(values[0] - values[1]).max() < 1e-6
    assert np.ptp(values[0]) > 0.1


def test_layers_that_are_read_twice_keep_their_vectors() -> None:
    given = network(16, 2, (8, 4), pooled=False)
    shown = replace(given, outputs=("fc0", "fc1"))
    made = dense_layers(shown, "bm1684x", "INT8")
    assert {name: made.tensors[name].shape for name in made.outputs} == {"fc0": (1, 8), "fc1": (1, 4)}
    assert "flat" not in made.tensors
    known = {"x"}
    for op in made.ops:
        assert set(op.inputs) <= known
        known.add(op.output)


def test_several_layers_on_one_vector_share_its_image() -> None:
    """Heads of a classifier and its teacher; the first ends behind the second."""
    given = network(16, 2, (8, 4), pooled=True)
    conv, (first, last) = given.ops[0], given.ops[-2:]
    mean = TpuReduce(name="m", inputs=("c",), output="m", function="mean", axes=(2, 3), keep_dims=False)
    other = replace(first, name="other", inputs=("m",), output="other")
    ops = (conv, mean, replace(first, inputs=("m",)), other, last)
    vectors = {"m": 16, "fc0": 8, "other": 8, "fc1": 4}
    tensors = {"x": given.tensors["x"], "c": given.tensors["c"]}
    tensors |= {name: TpuTensor(name, (1, size)) for name, size in vectors.items()}
    both = replace(given, ops=ops, tensors=tensors, outputs=("other", "fc1"))
    made = dense_layers(both, "bm1688", "INT8")
    assert convolutions(made) == {"fc0", "other", "fc1"}
    written = [op.output for op in made.ops]
    assert len(set(written)) == len(written)
    x = RANDOM.normal(0, 1, (8, 2, 2)).astype(np.float32)
    values = [simulate(to_program(each, {}, Precision("bm1684x", "F32")), {"x": x}) for each in (both, made)]
    for name in both.outputs:
        assert np.abs(values[0][name].ravel() - values[1][name].ravel()).max() < 1e-5


def test_tagged_layers_keep_their_tags() -> None:
    given = network(16, 2, (8,), pooled=False)
    tagged = replace(given, ops=tuple(replace(op, tags=("hp",)) if op.name == "fc0" else op for op in given.ops))
    (conv,) = (op for op in dense_layers(tagged, "bm1684x", "INT8").ops if op.name == "fc0")
    assert conv.tags == ("hp",)
    kept = replace(given, ops=tuple(replace(op, tags=("cpu",)) if op.name == "fc0" else op for op in given.ops))
    assert dense_layers(kept, "cv181x", "INT8") is kept
    assert not any(isinstance(op, TpuActivation) for op in given.ops)
