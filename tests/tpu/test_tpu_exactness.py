"""INT8 layers that chips compute in ways of their own: the simulation against the vendor's chip models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.calibrate.stats import ValueRange
from nnkit.cli import app
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.simulate import simulate
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.quantize import Precision, graph_of, table_ranges, to_program
from nnkit_tpu.toolchain import Toolchain

SHAPE = (1, 8, 16, 16)
BM_CHIPS = ("bm1684x", "bm1688")


class Net:
    """Nodes on the input `x`; a value has its node's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(3)

    def constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def __call__(self, to: str, op: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [to], name=to, **attributes))
        return to

    def conv(self, to: str, x: str, *shape: int, **attributes: Any) -> str:
        weight, bias = self.random.normal(0, 0.3, shape), self.random.normal(0, 0.2, shape[0])
        return self(to, "Conv", x, self.constant(weight), self.constant(bias), **attributes)

    def proto(self, *outputs: str, shape: tuple[int, ...] = SHAPE) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "layers",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def _report(folder: Path, proto: onnx.ModelProto, chip: str) -> dict[str, Any]:
    onnx.save(proto, folder / "net.onnx")
    (folder / "images").mkdir()
    random = np.random.default_rng(5)
    for index in range(3):
        np.save(folder / "images" / f"{index}.npy", random.normal(0, 1, SHAPE).astype(np.float32))
    text = f"""nnkit: 1
name: layers
model:
  path: net.onnx
  inputs:
    x: {{calibration: {{images: images/*.npy}}}}
calibration: {{method: max}}
targets:
  tpu: {{chip: {chip}}}
verify: {{images: images/*.npy}}
"""
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    arguments = ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out"), "--no-cache"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads((folder / "out/layers/tpu/report.json").read_text(encoding="utf-8"))
    return found


def _assert_exact(report: Mapping[str, Any]) -> None:
    verdict = next(each for each in report["verify"]["program_vs_artifact"] if each["how"] == "chip_model")
    assert verdict["mismatches"] == 0, verdict["first_difference"]
    assert verdict["max_difference"] == 0
    assert verdict["values"] > 10_000
    assert report["details"]["layers_within_a_bound"] == {}
    assert report["details"]["prediction"]["disagreements"] == []


def test_activations_that_overwrite_their_input_on_the_cv181x(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    first = net.conv("first", "x", 8, 8, 3, 3, pads=[1] * 4)
    leaky = net("leaky", "LeakyRelu", first, alpha=0.1)
    spread = net.conv("spread", leaky, 8, 1, 3, 3, group=8, dilations=[2, 2], pads=[2] * 4)
    slopes = net.constant(net.random.uniform(-0.2, 0.7, (8, 1, 1)))
    sloped = net("sloped", "PRelu", spread, slopes)
    last = net.conv("last", sloped, 8, 8, 1, 1)
    # `first` and `spread` are read again: the released model needs them whole, too
    both = net("both", "Add", net("once", "Add", last, first), spread)
    _assert_exact(_report(tmp_path, net.proto(both), "cv181x"))


def test_average_pools_that_leave_padding_out_on_the_cv181x(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    first = net.conv("first", "x", 8, 8, 3, 3, pads=[1] * 4)
    mean = net("mean", "AveragePool", first, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    net("half", "AveragePool", mean, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 0], ceil_mode=1)
    _assert_exact(_report(tmp_path, net.proto("half"), "cv181x"))


@pytest.mark.parametrize("chip", BM_CHIPS)
def test_layers_with_rules_of_their_own_on_bm_chips(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    net = Net()
    first = net.conv("first", "x", 8, 8, 3, 3, pads=[1] * 4)
    sloped = net("sloped", "PRelu", first, net.constant(net.random.uniform(-0.2, 0.7, (8, 1, 1))))
    mean = net("mean", "AveragePool", sloped, kernel_shape=[5, 3], strides=[1, 1], pads=[2, 1, 2, 1])
    # whole weights keep their scale; a relu's output stays unsigned beside signed parts
    summed = net("summed", "Conv", mean, net.constant(np.ones((8, 1, 3, 3))), pads=[1] * 4, group=8)
    positive = net("positive", "Relu", net.conv("before", summed, 8, 8, 1, 1))
    joined = net("joined", "Concat", positive, net.conv("signed", mean, 4, 8, 1, 1), axis=1)
    # never negative, yet signed as its input is
    most = net("most", "MaxPool", net.conv("deep", joined, 4, 12, 1, 1), kernel_shape=[8, 8], strides=[2, 2])
    net("scores", "GlobalAveragePool", most)
    _assert_exact(_report(tmp_path, net.proto("scores"), chip))


def _model(proto: onnx.ModelProto) -> Model:
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in proto.graph.output}
    outputs = tuple(OutputSpec(name, shape) for name, shape in shapes.items())
    shape = tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)
    return Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", shape),), outputs, 17)


def _of_every_byte(toolchain: Toolchain, net: Net, outputs: list[str], chip: str, folder: Path) -> None:
    """Chip model against simulation for all 256 input values, whose scale is 1, and so is the outputs'."""
    values = np.broadcast_to(np.arange(-128.0, 128.0).reshape(1, 1, 16, 16), SHAPE).astype(np.float32)
    ranges = {name: ValueRange(-127.0, 127.0, -127.0, 127.0) for name in ("x", *outputs)}
    program = to_program(
        for_chip(lower(_model(net.proto(*outputs)), "net"), chip, "INT8"), ranges, Precision(chip, "INT8")
    )
    graph = graph_of(program)
    options = CompileOptions(chip)
    compiled = compile_graph(toolchain, graph, options, folder, ranges=table_ranges(graph, ranges, chip))
    found = run_on_chip_model(toolchain, compiled.model, chip, {"x": values})
    expected = simulate(program, {"x": values[0]})
    assert len(found) == len(outputs)
    for name, given in zip(outputs, found.values(), strict=True):
        assert np.array_equal(given[0], expected[name].astype(np.float32)), name


@pytest.mark.parametrize("chip", [*BM_CHIPS, "cv181x"])
def test_every_byte_through_slopes(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    net = Net()
    alphas = (0.01, 0.3, 0.77, -0.3, 1.5)
    outputs = [net(f"one_{i}", "LeakyRelu", "x", alpha=alpha) for i, alpha in enumerate(alphas)]
    for i, (low, high) in enumerate(((0.05, 0.4), (-0.9, 1.9))):
        slopes = net.constant(net.random.uniform(low, high, (8, 1, 1)))
        outputs.append(net(f"many_{i}", "PRelu", "x", slopes))
    _of_every_byte(tpu_toolchain, net, outputs, chip, tmp_path)


@pytest.mark.parametrize("chip", BM_CHIPS)
def test_averages_at_every_border(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    net = Net()
    windows = (((3, 3), [1, 1, 1, 1]), ((7, 7), [3, 3, 3, 3]), ((6, 9), [3, 4, 2, 4]), ((13, 5), [6, 0, 6, 2]))
    outputs = [
        net(f"mean_{i}", "AveragePool", "x", kernel_shape=list(kernel), strides=[1, 1], pads=pads)
        for i, (kernel, pads) in enumerate(windows)
    ]
    _of_every_byte(tpu_toolchain, net, outputs, chip, tmp_path)


@pytest.mark.parametrize("chip", BM_CHIPS)
def test_every_byte_with_constants_of_several_numbers(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    net = Net()
    constants = (
        net.random.uniform(0.0, 0.7, SHAPE[1:]),
        net.random.uniform(-3.0, 1.0, SHAPE[1:]),
        net.random.uniform(0.0, 2.0, (8, 1, 16)),
        net.random.integers(-16, 17, SHAPE[1:]) / 16,  # many lie in the middle between two integers
        net.random.integers(0, 17, SHAPE[1:]) * 4,
    )
    outputs = [
        net(f"{op}_{i}", op, "x", net.constant(values)) for i, values in enumerate(constants) for op in ("Mul", "Add")
    ]
    _of_every_byte(tpu_toolchain, net, outputs, chip, tmp_path)
