"""Precisions and stored integers through a recipe, and which layers the compiler computes in float32."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.calibrate import calibrate
from nnkit.cli import app
from nnkit.errors import ExitCode, NnkitError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.simulate import simulate
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuOp
from nnkit_tpu.quantize import Precision, other_modes, to_program
from nnkit_tpu.toolchain import Toolchain

SHAPE = (1, 4, 10, 10)


class _Net:
    """Nodes on the input `x`; every value has its node's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(3)

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def __call__(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(self, name: str, x: str, outputs: int, inputs: int, **attributes: Any) -> str:
        weight = self.constant(self.random.normal(0, 0.3, (outputs, inputs, 3, 3)))
        bias = self.constant(self.random.normal(0, 0.2, outputs))
        return self("Conv", name, x, weight, bias, pads=[1, 1, 1, 1], **attributes)

    def proto(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "small",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def _small() -> onnx.ModelProto:
    """first -> depthwise -> total (first + depthwise) -> squashed -> joined (squashed, total) -> last."""
    net = _Net()
    x = net("Relu", "relu", net.conv("first", "x", 8, 4, strides=[2, 2]))
    total = net("Add", "total", x, net.conv("depthwise", x, 8, 8))
    joined = net("Concat", "joined", net("Sigmoid", "squashed", total), total, axis=1)
    net.conv("last", net("MaxPool", "pooled", joined, kernel_shape=[2, 2]), 6, 16)
    return net.proto("last")


def _compared() -> onnx.ModelProto:
    """first, other -> larger (which runs in floating point) -> grown -> last."""
    net = _Net()
    larger = net("Max", "larger", net.conv("first", "x", 4, 4), net.conv("other", "x", 4, 4))
    net.conv("last", net("Exp", "grown", larger), 3, 4)
    return net.proto("last")


def _branches() -> tuple[onnx.ModelProto, list[str]]:
    """Layers of every kind side by side, each between two convolutions; the layers between them by name."""
    net = _Net()
    base, other = net.conv("base", "x", 4, 4), net.conv("other", "x", 4, 4)
    positive = net("Add", "positive", net("Abs", "magnitude", other), net.constant([0.5]))
    gate = net("Sigmoid", "gate", base)
    factors = net.constant([1.0, 1.0, 2.0, 2.0])
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    tagged = [
        net("Sigmoid", "sigmoid", other),  # of another value than the gate: equal layers become one
        *(net(op, op.lower(), base) for op in ("Tanh", "HardSigmoid", "HardSwish")),
        net("Mul", "silu", base, gate),
        net("Sqrt", "sqrt", positive),
        net("AveragePool", "average", base, kernel_shape=[3, 3]),
        net("MaxPool", "maximum", base, kernel_shape=[2, 2], strides=[2, 2]),
        net("Mul", "product", base, other),
        net("Add", "sum", base, other),
        net("Sub", "difference", base, other),
        net("Div", "quotient", base, positive),
        net("Softmax", "softmax", base, axis=1),
        net("Transpose", "permute", base, perm=[0, 1, 3, 2]),
        net("Resize", "upsample", base, "", factors, **nearest),
    ]
    outputs = [net.conv(f"after_{name}", name, 2, 4) for name in tagged]
    outputs.append(net.conv("after_concat", net("Concat", "concat", base, other, axis=1), 2, 8))
    return net.proto(*outputs), [*tagged, "concat"]


def _root_mean_square() -> onnx.ModelProto:
    """x over the root of the mean of its squares, written out; the squares exceed what F16 holds."""
    net = _Net()
    large = net("Mul", "large", "x", net.constant([300.0]))
    squares = net("Mul", "squares", large, large)
    mean = net("ReduceMean", "mean", squares, axes=[3], keepdims=1)
    net("Div", "scaled", large, net("Sqrt", "root", net("Add", "more", mean, net.constant([1e-5]))))
    return net.proto("scaled")


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_what_f16_does_not_hold_runs_in_float32(chip: str) -> None:
    proto = _root_mean_square()
    model = Model(
        proto.SerializeToString(), LayerTags(), (InputSpec("x", SHAPE),), (OutputSpec("scaled", SHAPE),), 17
    )
    given = np.random.default_rng(5).normal(0, 1, SHAPE).astype(np.float32)
    ranges = calibrate(model, {"x": [given]}, {}, method="max").ranges
    program = to_program(lower(model, "net", chip), ranges, Precision(chip, "F16"))
    modes = {op.output: op.mode for op in program.ops if isinstance(op, TpuOp)}
    assert {name for name, mode in modes.items() if mode == "F32"} >= {"squares", "mean", "more", "root"}
    assert modes["large"] == "F16"
    stated = other_modes(program, "F16")
    assert [stated[name] for name in ("squares", "mean", "more")] == ["F32"] * 3
    assert any("squares runs in F32" in note and "65,504" in note for note in program.notes)
    (expected,) = onnxruntime.InferenceSession(model.onnx_bytes).run(None, {"x": given})
    scaled = simulate(program, {"x": given[0]})["scaled"]
    np.testing.assert_allclose(scaled, expected[0], rtol=4e-3, atol=1e-4)


def _run(folder: Path, options: str, network: Callable[[], onnx.ModelProto] = _small) -> tuple[Path, Any]:
    onnx.save(network(), folder / "net.onnx")
    random = np.random.default_rng(5)
    (folder / "inputs").mkdir()
    for index in range(3):
        np.save(folder / "inputs" / f"{index}.npy", random.normal(0, 1, SHAPE).astype(np.float32))
    text = f"""nnkit: 1
name: small
model:
  path: net.onnx
  simplify: false
  inputs: {{x: {{calibration: {{images: inputs/*.npy}}}}}}
calibration: {{method: max}}
targets: {{tpu: {options}}}
verify: {{images: inputs/*.npy}}
"""
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    arguments = ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out"), "--no-cache"]
    return folder / "out" / "small" / "tpu", CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    ("chip", "options", "cosine"),
    [
        ("bm1684x", "quant_input: true, quant_output: true", 0.999),
        ("cv181x", "quant_input: true, quant_output: true", 0.999),
        ("bm1684x", "precision: bf16", 0.9999),
        ("bm1688", "precision: bf16", 0.9999),
        ("cv181x", "precision: bf16", 0.9999),
        ("bm1688", "quant_input: true, tags: {hp: [total, last]}", 0.999),
        ("cv181x", "quant_output: true, tags: {hp: [first, total]}", 0.999),
    ],
)
def test_every_layer_agrees_with_the_chip_model(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, options: str, cosine: float
) -> None:
    build, done = _run(tmp_path, f"{{chip: {chip}, {options}}}")
    assert done.exit_code == 0, done.output
    report = json.loads((build / "report.json").read_text(encoding="utf-8"))
    (verdict,) = (each for each in report["verify"]["program_vs_artifact"] if each["how"] == "chip_model")
    assert verdict["mismatches"] == 0
    assert verdict["values"] > 1000
    assert report["verify"]["float_vs_program"]["cosine"] >= cosine
    details = report["details"]
    if "precision" not in options:
        assert details["prediction"]["disagreements"] == []
        assert set(details["layers_within_a_bound"]) == set(re.findall(r"\w+", options.partition("hp:")[2]))
    if "quant_input" in options and "quant_output" in options:
        assert verdict["max_difference"] == 0
        _check_stored(tpu_toolchain, build, chip)


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_int8_layers_are_exact_behind_floating_point_of_every_kind(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    proto, tagged = _branches()
    options = f"{{chip: {chip}, layer_group: vendor, tags: {{hp: [{', '.join(tagged)}]}}}}"
    build, done = _run(tmp_path, options, lambda: proto)
    assert done.exit_code == 0, done.output
    report = json.loads((build / "report.json").read_text(encoding="utf-8"))
    (verdict,) = (each for each in report["verify"]["program_vs_artifact"] if each["how"] == "chip_model")
    assert verdict["mismatches"] == 0
    bounded = report["details"]["layers_within_a_bound"]
    assert set(tagged) <= set(bounded)
    assert not any(name.startswith("after_") for name in bounded)
    assert report["details"]["prediction"]["disagreements"] == []


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_what_a_comparison_reads_has_the_scale_of_its_result(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    """And exponentials up to several hundreds stay within their bound."""
    build, done = _run(tmp_path, f"{{chip: {chip}, tags: {{hp: [grown]}}}}", _compared)
    assert done.exit_code == 0, done.output
    report = json.loads((build / "report.json").read_text(encoding="utf-8"))
    assert report["details"]["prediction"]["disagreements"] == []
    (verdict,) = (each for each in report["verify"]["program_vs_artifact"] if each["how"] == "chip_model")
    assert verdict["mismatches"] == 0
    assert any("larger runs in" in note for note in report["quantization_notes"])


def _check_stored(toolchain: Toolchain, build: Path, chip: str) -> None:
    """The model takes and gives integers as the interface says; in real units the output is the float network's."""
    interface = json.loads((build / "artifact" / "interface.json").read_text(encoding="utf-8"))
    (source,), (result,) = interface["inputs"], interface["outputs"]
    assert (source["type"], result["type"]) == ("int8", "int8")
    real = np.load(build.parents[2] / "inputs" / "0.npy")
    stored = np.clip(np.rint(real / source["scale"]), -128, 127).astype(np.int8)
    model = build / "artifact" / interface["model"]
    found = run_on_chip_model(toolchain, model, chip, {source["name"]: stored})[result["name"]]
    assert found.dtype == np.int8
    session = onnx.reference.ReferenceEvaluator(onnx.load(build / "float.onnx"))
    (expected,) = session.run(None, {"x": real})
    got = found.astype(np.float64) * result["scale"]
    assert np.abs(got.reshape(expected.shape) - expected).max() <= 3 * result["scale"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("quant_input: true, tags: {hp: [first]}", "quant_input: first runs in BF16"),
        ("quant_output: true, tags: {hp: [last]}", "quant_output: last runs in BF16"),
    ],
)
def test_stored_integers_need_int8_layers_at_the_ends(tmp_path: Path, options: str, reason: str) -> None:
    _, done = _run(tmp_path, f"{{chip: cv181x, {options}}}")
    assert isinstance(done.exception, NnkitError)
    assert done.exception.exit_code == ExitCode.USER
    assert reason in str(done.exception)
    assert "remove the `hp` tags" in str(done.exception)


def _one_of_each() -> tuple[onnx.ModelProto, list[str]]:
    """Ops side by side, each with an output of its own; those that need positive values read `positive`."""
    net = _Net()
    positive = net("Abs", "positive", "x")
    names = [positive]
    for op in ("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Exp", "LeakyRelu", "GlobalAveragePool"):
        names.append(net(op, op.lower(), "x"))
    net("Sigmoid", "gate", "x")
    names += [net("Mul", "silu", "x", "gate"), net("Sqrt", "sqrt", positive)]
    names.append(net("Reshape", "reshape", "sigmoid", net.constant([1, 8, 5, 10], np.int64)))
    names.append(net("Transpose", "permute", "sigmoid", perm=[0, 2, 3, 1]))
    names.append(net("Concat", "concat", "sigmoid", "tanh", axis=1))
    names.append(net("AveragePool", "average", "x", kernel_shape=[3, 3]))
    names.append(net("MaxPool", "maximum", "x", kernel_shape=[3, 3]))
    names.append(net("ReduceMean", "mean_of_image", "x", axes=[2, 3]))
    names.append(net("ReduceMean", "mean_of_channels", "x", axes=[1]))
    names.append(net("ReduceSum", "sum_of_image", "x", net.constant([2, 3], np.int64)))
    shifted = net("Add", "shifted", positive, net.constant([0.5]))
    names += [shifted, net("Div", "quotient", "x", shifted), net("Div", "reciprocal", net.constant([2.0]), shifted)]
    names += [
        net("Mul", "product", "x", shifted),
        net("Softmax", "softmax", "x", axis=1),
        net.conv("conv", "x", 8, 4),
    ]
    return net.proto(*names), names


@pytest.mark.parametrize(("chip", "mode"), [(c, m) for c in ("bm1684x", "bm1688") for m in ("F16", "BF16")])
def test_layers_in_float32_are_those_of_the_compilers_lowered_program(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: Any
) -> None:
    proto, names = _one_of_each()
    shapes = {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in proto.graph.output}
    outputs = tuple(OutputSpec(name, shapes[name]) for name in names)
    graph = lower(Model(proto.SerializeToString(), LayerTags(), (InputSpec("x", SHAPE),), outputs, 17), "ops")
    program = to_program(graph, {}, Precision(chip, mode))
    modes = other_modes(program, mode)
    assert set(modes) == ({"globalaveragepool", "mean_of_image", "sum_of_image"} if mode == "BF16" else set())
    options = CompileOptions(chip, mode)
    text = lower_graph(tpu_toolchain, graph, options, tmp_path, modes=modes).mlir.read_text(encoding="utf-8")
    places = dict(re.findall(r'^(#loc\d*) = loc\("(.*)"\)$', text, re.MULTILINE))
    ops = re.findall(r'= "tpu\.\w+"\(.* -> tensor<(?:\d+x)*(\w+)> loc\((#loc\d*)\)$', text, re.MULTILINE)
    theirs = {places[place]: kind.upper() for kind, place in ops}
    ours = {op.output: op.mode for op in program.ops}
    assert len(ours) > 20
    assert ours == {name: theirs[name] for name in ours}
    assert "F32" in ours.values()
