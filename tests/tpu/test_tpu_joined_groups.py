"""Groups of convolutions joined: the same sums by ONNX Runtime, as many as the lanes hold, and fewer cycles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.joined_groups import joined_groups
from nnkit_tpu.layer_group.vendor_files import read_profile
from nnkit_tpu.program import Mode, TpuConv, TpuGraph, TpuTensor
from nnkit_tpu.toolchain import Toolchain


def _graph(groups: int, inputs: int, outputs: int, side: int = 5, kernel: int = 3) -> TpuGraph:
    """A convolution with whole numbers, whose sums are exact in any order."""
    random = np.random.default_rng(4)
    weight = random.integers(-9, 10, (groups * outputs, inputs, kernel, kernel)).astype(np.float32)
    window = Window(kernel, kernel, 1, 1, 1, 1, *[kernel // 2] * 4)
    op = TpuConv(name="y", inputs=("x",), output="y", weight=weight, bias=None, window=window, group=groups)
    channels = {"x": groups * inputs, "y": groups * outputs}
    tensors = {name: TpuTensor(name, (1, count, side, side)) for name, count in channels.items()}
    return TpuGraph("net", tensors, (op,), ("x",), ("y",))


def _conv(graph: TpuGraph) -> TpuConv:
    (op,) = graph.ops
    assert isinstance(op, TpuConv)
    return op


def _in_onnx_runtime(graph: TpuGraph, x: NDArray[np.float32]) -> NDArray[np.float32]:
    op = _conv(graph)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=op.group, pads=[op.window.pad_top] * 4)
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y"))
    body = helper.make_graph([node], "net", [given], [result], [numpy_helper.from_array(op.weight, "w")])
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["y"], {"x": x})[0])


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "chip", "mode", "left"),
    [
        (12, 16, 16, "bm1684x", "INT8", 3),  # of 64 channels
        (12, 16, 16, "bm1688", "INT8", 6),  # of 32
        (12, 16, 16, "bm1684x", "F16", 6),
        (12, 16, 16, "bm1684x", "F32", 12),
        (12, 16, 16, "cv181x", "INT8", 12),
        (12, 4, 12, "bm1684x", "INT8", 3),  # the results are 48
        (6, 40, 8, "bm1684x", "INT8", 6),  # two have too many inputs
        (5, 24, 20, "bm1684x", "INT8", 5),  # of five groups no two halves can be made
        (64, 1, 1, "bm1684x", "INT8", 64),  # depthwise
        (64, 1, 2, "bm1684x", "INT8", 2),
    ],
)
def test_groups_that_fit_the_lanes_compute_the_same_sums(
    groups: int, inputs: int, outputs: int, chip: str, mode: Mode, left: int
) -> None:
    graph = _graph(groups, inputs, outputs)
    joined = joined_groups(graph, chip, mode)
    assert _conv(joined).group == left
    assert (joined is graph) == (left == groups)
    x = np.random.default_rng(6).integers(-9, 10, graph.tensors["x"].shape).astype(np.float32)
    assert np.array_equal(_in_onnx_runtime(joined, x), _in_onnx_runtime(graph, x))
    tensors = {name: replace(tensor, shape=tensor.shape[1:]) for name, tensor in graph.tensors.items()}
    counts = {_conv(each).multiply_accumulates(tensors) for each in (graph, joined)}  # type: ignore[arg-type]
    assert counts == {groups * inputs * outputs * 9 * 25}


def test_a_layer_in_16_bits_has_half_the_lanes() -> None:
    graph = _graph(12, 16, 16)
    lifted = replace(graph, ops=(replace(_conv(graph), tags=("hp",)),))
    assert _conv(joined_groups(lifted, "bm1684x", "INT8")).group == 6


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_joined_groups_take_fewer_cycles(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    cycles = []
    graph = _graph(32, 4, 4, side=14)
    for index, each in enumerate((graph, joined_groups(graph, chip, "INT8"))):
        folder = tmp_path / str(index)
        folder.mkdir()
        ranges = dict.fromkeys(each.tensors, ValueRange(-4.0, 4.0, -4.0, 4.0))
        compile_graph(tpu_toolchain, each, CompileOptions(chip), folder, ranges=ranges, search=False)
        cycles.append(read_profile((folder / "compiler_profile_0.txt").read_text(errors="replace")).end_cycles)
    assert 1.5 * cycles[1] < cycles[0]
