"""Networks that are quantised already: their integers in the compiler's program, and ONNX Runtime's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build

from nnkit.errors import ModelError, RecipeError
from nnkit.graph import Model
from nnkit.importers import import_onnx
from nnkit.pipeline import prepare
from nnkit.program import Affine
from nnkit.report.untried import KEPT_FORMATS
from nnkit.simulate import simulate
from nnkit_tpu import quantized
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.mlir_reader import disagreements, read_lowered
from nnkit_tpu.model_run import run_model, run_model_inside
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuGraph, TpuOp
from nnkit_tpu.quantize import graph_of
from nnkit_tpu.quantized.formats import as_compiled
from nnkit_tpu.toolchain import Toolchain


class _Network:
    """A network in QDQ form; every value that is named with a scale and a zero point is quantised to int8."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.integers: dict[str, NDArray[np.int8]] = {}
        self.random = np.random.default_rng(7)

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def stored(self, value: str, scale: float, zero: int) -> str:
        form = [self.constant(scale), self.constant(zero, np.int8)]
        self.nodes.append(helper.make_node("QuantizeLinear", [value, *form], [f"{value}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{value}_q", *form], [f"{value}_dq"]))
        return f"{value}_dq"

    def op(self, kind: str, name: str, *inputs: str, form: tuple[float, int] | None, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name if form is None else self.stored(name, *form)

    def real(self, values: NDArray[Any], scale: NDArray[np.float32], zero: int = 0) -> str:
        """Integers without their zero point times a scale for each output channel."""
        given = [
            self.constant(values, values.dtype),
            self.constant(scale),
            self.constant(np.full(len(scale), zero), values.dtype),
        ]
        self.nodes.append(helper.make_node("DequantizeLinear", given, [f"{given[0]}_real"], axis=0))
        return f"{given[0]}_real"

    def conv(
        self,
        name: str,
        source: str,
        shape: tuple[int, ...],
        unit: float,
        form: tuple[float, int] | None,
        group: int = 1,
    ) -> str:
        """unit: the scale of its input. No channel's largest weight is 127."""
        weights = self.random.integers(-90, 91, shape).astype(np.int8)
        self.integers[name] = weights
        scale = (0.004 + 0.0003 * np.arange(shape[0])).astype(np.float32)
        bias = self.random.integers(-2000, 2000, shape[0]).astype(np.int32)
        inputs = source, self.real(weights, scale), self.real(bias, scale * np.float32(unit))
        return self.op("Conv", name, *inputs, form=form, group=group, pads=[shape[2] // 2] * 4)

    def saved(self, path: Path, inputs: Mapping[str, tuple[int, ...]], *outputs: str) -> Model:
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "quantized", given, made, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return import_onnx(path).model


def _every_operator() -> tuple[_Network, tuple[str, ...]]:
    net = _Network()
    x = net.stored("x", 0.03, -3)
    first = net.conv("first", x, (8, 3, 3, 3), 0.03, (0.031, 7))
    relu = net.op("Relu", "relu", first, form=(0.02, -128))
    around_zero = net.op("Relu", "around_zero", net.conv("even", first, (8, 8, 3, 3), 0.031, None), form=(0.04, 0))
    depthwise = net.conv("depthwise", relu, (8, 1, 3, 3), 0.02, (0.0311, 5), group=8)
    total = net.op("Add", "total", relu, depthwise, form=(0.0412, -11))
    narrow = net.conv("narrow", total, (8, 8, 1, 1), 0.0412, (0.05, 3))
    wide = net.conv("wide", narrow, (8, 8, 1, 1), 0.05, (0.05, -9))
    again = net.op("Add", "again", total, wide, form=(0.055, -3))
    largest = net.op(
        "MaxPool", "largest", again, form=(0.055, -3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    leaky = net.op("LeakyRelu", "leaky", largest, form=(0.043, -70), alpha=0.1)
    gate = net.op("Sigmoid", "gate", largest, form=(1 / 256, -128))
    tanh = net.op("Tanh", "tanh", largest, form=(1 / 128, 0))
    product = net.op("Mul", "product", leaky, gate, form=(0.03, -60))
    halved = net.op("MaxPool", "halved", around_zero, form=(0.04, 0), kernel_shape=[2, 2], strides=[2, 2])
    joined = net.op("Concat", "joined", leaky, product, tanh, halved, form=(0.043, -70), axis=1)
    padded = net.op("AveragePool", "padded", joined, form=(0.043, -70), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    mean = net.op("AveragePool", "mean", padded, form=(0.041, -60), kernel_shape=[2, 2], strides=[2, 2])
    clip = net.conv("before_clip", mean, (8, 32, 1, 1), 0.041, None)
    clipped = net.op("Clip", "clipped", clip, net.constant(0.0), net.constant(2.0), form=(0.03, -100))
    flat = net.op("Flatten", "flat", net.op("GlobalAveragePool", "all", clipped, form=(0.02, -90)), form=(0.02, -90))
    softmax = net.op("Softmax", "scores", flat, form=(1 / 256, -128), axis=1)
    turned = net.op("Transpose", "turned", product, form=(0.03, -60), perm=[0, 2, 3, 1])
    weights = net.random.integers(-90, 91, (8, 4, 3, 3)).astype(np.int8)
    kernel = [net.constant(weights, np.int8), net.constant(0.004), net.constant(0, np.int8)]
    net.nodes.append(helper.make_node("DequantizeLinear", kernel, ["kernel"]))
    wider = net.op("ConvTranspose", "wider", product, "kernel", form=(0.0507, 5), strides=[2, 2])
    edged = net.op("Pad", "edged", wider, net.constant([0, 0, 1, 0, 0, 0, 2, 1], np.int64), form=(0.0507, 5))
    far = net.random.integers(-128, 128, (4, 4, 1, 1)).astype(np.int8)  # up to 228 above their zero point
    unusual = net.op("Conv", "unusual", edged, net.real(far, np.full(4, 0.0031, np.float32), -100), form=(0.047, -20))
    halves = [net.op("Slice", f"half_{at}", unusual, *_span(net, at), form=(0.047, -20)) for at in (0, 2)]
    elu = net.op("Elu", "elu", halves[0], form=(0.046, -100), alpha=0.7)
    prelu = net.op("PRelu", "prelu", halves[1], net.constant([[[0.1]], [[0.3]]]), form=(0.046, -60))
    twice = net.op("Add", "twice", relu, relu, form=(0.041, -60))  # signs that the compiler would not have so
    return net, (softmax, turned, elu, prelu, net.op("GlobalAveragePool", "unsigned", twice, form=(0.031, -128)))


def _span(net: _Network, start: int) -> list[str]:
    """Two channels from this one on."""
    return [net.constant([each], np.int64) for each in (start, start + 2, 1)]


def _inputs(count: int) -> list[dict[str, NDArray[np.float32]]]:
    random = np.random.default_rng(3)
    return [{"x": random.normal(0, 1, (3, 8, 8)).astype(np.float32)} for _ in range(count)]


def _onnx_runtime(path: Path, given: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """What ONNX Runtime dequantises everywhere in the network, by the name of the value."""
    model = onnx.load(path)
    names = [node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"]
    inner = [name for name in names if name.endswith("_dq")]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inner)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = session.run(inner, {name: value[np.newaxis] for name, value in given.items()})
    return dict(zip(inner, values, strict=True))


@pytest.fixture(scope="module")
def every_operator(tmp_path_factory: pytest.TempPathFactory) -> tuple[_Network, Path, TpuGraph]:
    path = tmp_path_factory.mktemp("quantized") / "net.onnx"
    net, outputs = _every_operator()
    return net, path, quantized.lower(net.saved(path, {"x": (1, 3, 8, 8)}, *outputs))


def test_every_value_is_onnx_runtime_s_within_a_unit(every_operator: tuple[_Network, Path, TpuGraph]) -> None:
    """Each layer on ONNX Runtime's own inputs of it; what lies at a half is rounded otherwise."""
    _, path, graph = every_operator
    program = quantized.to_program(graph)
    compared = differing = 0
    for given in _inputs(2):
        theirs, known = _onnx_runtime(path, given), dict(given)
        for op in program.ops:
            mine = op.compute([known[name] for name in op.inputs], program.tensors)
            known[op.output] = mine
            real = theirs.get(op.output.removesuffix("_real"))
            if real is None:
                continue
            shown = graph.tensors[op.output].format
            assert isinstance(shown, Affine)
            form = as_compiled(shown)
            stored = np.rint(real.reshape(mine.shape) / form.scale[0]) + form.zero_point[0]
            if op.output in theirs and program.tensors[op.output].format == form:
                known[op.output] = stored.astype(form.dtype)
            else:
                mine = np.clip(np.rint(mine / form.scale[0]) + form.zero_point[0], form.qmin, form.qmax)
            apart = np.abs(mine.astype(np.int64) - stored.astype(np.int64))
            assert apart.max() <= 1, op.name
            compared, differing = compared + apart.size, differing + int(np.count_nonzero(apart))
    assert compared > 8000
    assert differing < 0.02 * compared


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_every_layer_on_the_chip_model(
    tpu_toolchain: Toolchain, tmp_path: Path, every_operator: tuple[_Network, Path, TpuGraph], chip: str
) -> None:
    net, _, graph = every_operator
    program = quantized.to_program(graph)
    options = CompileOptions(chip, zero_points=True)
    ranges, modes = quantized.table_ranges(graph), quantized.other_modes(program)
    given = _inputs(2)
    sent = graph_of(program)
    (tmp_path / "released").mkdir()
    (tmp_path / "traced").mkdir()
    released = compile_graph(
        tpu_toolchain, sent, options, tmp_path / "released", ranges=ranges, modes=modes, search=False
    )
    text = released.lowered_mlir.read_text(encoding="utf-8")
    wrong, compared = disagreements(program, read_lowered(text), released.lowered_weights, released.locations)
    assert wrong == ()
    assert compared >= 20
    with np.load(released.lowered_weights) as weights:
        for name, integers in net.integers.items():
            (output,) = (op.output for op in program.ops if op.name == name)
            kept = weights[f"{released.locations[output]}_filter_i8"]
            np.testing.assert_array_equal(kept.ravel(), integers.ravel())
    build = {"chip": chip, "names": released.locations, "batch": 1}
    outputs = run_model(tpu_toolchain, released.model, program, build, given, program.outputs)
    for one, theirs in zip(given, outputs, strict=True):
        ours = simulate(program, one)
        for name in program.outputs:
            np.testing.assert_array_equal(theirs[name], ours[name])
    every_value = replace(sent, outputs=tuple(op.output for op in sent.ops))
    traced = compile_graph(
        tpu_toolchain, every_value, options, tmp_path / "traced", ranges=ranges, modes=modes, search=False
    )
    inner = run_model_inside(tpu_toolchain, traced.model, program, {**build, "names": traced.locations}, given)
    for one, values in zip(given, inner, strict=True):
        known = {**one, **values}
        for op in program.ops:
            assert isinstance(op, TpuOp)
            mine = op.compute([known[name] for name in op.inputs], program.tensors)
            if op.mode == "INT8":
                np.testing.assert_array_equal(values[op.output], mine, err_msg=op.name)
            else:
                np.testing.assert_allclose(values[op.output], mine, atol=1e-6 * op.magnitude, err_msg=op.name)


@pytest.mark.parametrize(
    ("stored", "compiled"),
    [
        (Affine(8, (0.5,), (-128,), signed=True), (0, False)),  # nothing negative: bytes without sign
        (Affine(8, (0.5,), (0,)), (0, False)),
        (Affine(8, (0.5,), (-3,), signed=True), (-3, True)),
        (Affine(8, (0.5,), (128,)), (0, True)),
        (Affine(8, (0.5,), (255,)), (127, True)),  # nothing positive
    ],
)
def test_the_compiler_s_format_of_a_value(stored: Affine, compiled: tuple[int, bool]) -> None:
    made = as_compiled(stored)
    assert (made.zero_point[0], made.signed) == compiled
    assert made.scale[0] == pytest.approx(0.5, rel=1e-15)
    ends = [float(stored.dequantize(np.array(end))) for end in (stored.qmin, stored.qmax)]
    assert [float(made.dequantize(np.array(end))) for end in (made.qmin, made.qmax)] == pytest.approx(ends)


def _small(folder: Path, kind: Any = np.int8) -> Model:
    net = _Network()
    if kind is np.int8:
        x = net.stored("x", 0.03, -3)
        return net.saved(folder / "net.onnx", {"x": (1, 3, 8, 8)}, net.conv("y", x, (4, 3, 3, 3), 0.03, (0.03, 2)))
    form = [net.constant(0.001), net.constant(0, np.int16)]
    net.nodes += [
        helper.make_node("QuantizeLinear", ["x", *form], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", *form], ["x_dq"]),
        helper.make_node("Relu", ["x_dq"], ["y"], name="y"),
        helper.make_node("QuantizeLinear", ["y", *form], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", *form], ["y_dq"]),
    ]
    graph = helper.make_graph(
        net.nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y_dq", TensorProto.FLOAT, None)],
        net.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "net.onnx")
    return import_onnx(folder / "net.onnx").model


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"chip": "cv181x"}, ModelError, "choose a bm1684x or bm1688"),
        ({"chip": "bm1684x", "precision": "f16"}, ModelError, "set `precision: int8`"),
        ({"chip": "bm1684x", "fuse_preprocess": True}, RecipeError, "remove fuse_preprocess"),
    ],
)
def test_what_has_no_zero_points_is_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match="quantised already") as refused:
        quantized.check_accepted(_small(tmp_path), TpuOptions(**options))
    assert told in str(refused.value)
    assert "`dequantize: true`" in str(refused.value)


def test_integers_of_sixteen_bits_are_refused_with_the_way(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="integers of 8 bits only") as refused:
        quantized.lower(_small(tmp_path, np.int16))
    assert "`dequantize: true`" in str(refused.value)


def test_values_that_the_file_leaves_in_float_are_refused_by_name(tmp_path: Path) -> None:
    net = _Network()
    y = net.conv("y", net.stored("x", 0.03, -3), (4, 3, 3, 3), 0.03, (0.03, 2))
    model = net.saved(tmp_path / "net.onnx", {"x": (1, 3, 8, 8)}, net.op("Tanh", "left", y, form=None))
    with pytest.raises(ModelError, match=r"left.*leaves it in float") as refused:
        quantized.lower(model)
    assert "`dequantize: true`" in str(refused.value)


def _recipe(folder: Path, more: str = "") -> Path:
    _small(folder)
    (folder / "inputs").mkdir()
    for index in range(4):
        values = np.random.default_rng(index).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
        np.save(folder / f"inputs/{index}.npy", values)
    model = "{path: net.onnx, inputs: {x: {calibration: {images: inputs/*.npy}}}}"
    text = f"nnkit: 1\nname: small\nmodel: {model}\n{more}targets: {{tpu: {{chip: bm1684x}}}}\n"
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    return folder / "recipe.yaml"


def test_the_target_keeps_formats_and_chooses_no_ranges(tmp_path: Path) -> None:
    prepared = prepare(make_build(_recipe(tmp_path), target="tpu"))
    assert KEPT_FORMATS in prepared.program.notes
    form = prepared.program.tensors["y_dq"].format
    assert isinstance(form, Affine)
    assert (form.zero_point, form.signed) == ((2,), True)
    assert form.scale[0] == pytest.approx(np.float32(0.03), rel=1e-12)
    assert prepared.statistics.method == "max"  # and not one of those that are tried otherwise
    assert prepared.statistics.trials == ()


def test_corrections_would_change_the_integers(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, "calibration: {method: max, corrections: [bias_correction]}\n")
    with pytest.raises(RecipeError, match="would change its integers"):
        prepare(make_build(recipe, target="tpu"))


def test_there_are_no_layers_to_choose_for_16_bits(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, "tags: {hp: auto}\nverify: {gates: {cosine: 0.99}}\n")
    with pytest.raises(RecipeError, match="keeps its formats"):
        prepare(make_build(recipe, target="tpu"))
