"""Networks that ONNX Runtime has quantised, in QDQ and QOperator form: its integers, within one unit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.importers import ImportOptions, import_onnx
from nnkit.program import Program
from nnkit.program.affine import AffineProgram, AffineTensor
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.quantized_network import lower_quantized
from nnkit.simulate import simulate

NETWORKS = ("a_squeezenet11", "b_mbv1_025", "c_resnet8", "d_dscnn")


def farthest(model: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[np.float32]]]) -> tuple[int, int]:
    """(the largest difference from ONNX Runtime's outputs in units, how many values differ)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    largest = differing = 0
    for given in inputs:
        stored = {
            name: program.tensors[name].format.quantize(values.reshape(program.tensors[name].shape))
            for name, values in given.items()
        }
        ours, theirs = simulate(program, stored), session.run(list(program.outputs), dict(given))
        for name, real in zip(program.outputs, theirs, strict=True):
            tensor = program.tensors[name]
            assert isinstance(tensor, AffineTensor)
            units = np.rint(real.reshape(tensor.shape) / tensor.scale) + tensor.zero_point
            off = np.abs(ours[name].astype(np.int64) - units)
            largest, differing = max(largest, int(off.max())), differing + int(np.count_nonzero(off))
    return largest, differing


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_onnx_runtime_s_quantiser_within_one_unit(shared_dir: Path, network: str) -> None:
    path = shared_dir / "nets" / f"{network}_int8qdq_s.onnx"
    model = import_onnx(path).model
    plain = AffineScheme(bias_correction=False)
    program = quantize_affine(lower_quantized(model), CalibrationStats({}, "formats", 0, ""), plain)
    (spec,) = model.inputs
    generator = np.random.default_rng(3)
    inputs = [{spec.name: generator.standard_normal(spec.shape).astype(np.float32)} for _ in range(2)]
    largest, differing = farthest(path, program, inputs)
    assert largest <= 1
    if network in ("b_mbv1_025", "d_dscnn"):  # no value of these lies where its rounding and ours part
        assert differing == 0


def program_of(graph: onnx.GraphProto, path: Path) -> AffineProgram:
    """The integer program of a quantised network, which is written to the path."""
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    lowered = lower_quantized(import_onnx(path).model)
    return quantize_affine(lowered, CalibrationStats({}, "formats", 0, ""), AffineScheme(bias_correction=False))


def test_where_onnx_runtime_s_integers_are_others_ours_are_the_nearest(tmp_path: Path) -> None:
    """Sums so near to a half of a unit that float32 takes them for a half; float64 tells on which side they are."""
    generator = np.random.default_rng(8)
    weights = generator.integers(-127, 128, (24, 1, 3, 3)).astype(np.int8)
    source, scale = np.float32(0.037), np.float32(0.0049)
    result = np.float32(np.float64(source) * scale * 128)
    scales = scale * generator.choice([0.5, 1, 2], 24).astype(np.float32)
    constants: dict[str, Any] = {"w": weights, "w_scale": scales}
    constants |= {"w_zero": np.zeros(24, np.int8), "x_scale": source, "x_zero": np.uint8(117)}
    constants |= {"y_scale": result, "y_zero": np.uint8(101)}
    x, y = ["x_scale", "x_zero"], ["y_scale", "y_zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *x], ["x_stored"]),
        helper.make_node("DequantizeLinear", ["x_stored", *x], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_real"], axis=0),
        helper.make_node("Conv", ["x_real", "w_real"], ["sum"], group=24, kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["sum", *y], ["y_stored"]),
        helper.make_node("DequantizeLinear", ["y_stored", *y], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, 1, (1, 24, 16, 16)) for name in ("x", "y")]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    path = tmp_path / "halves.onnx"
    program = program_of(helper.make_graph(nodes, "halves", ports[:1], ports[1:], stored), path)
    given = generator.integers(0, 256, (24, 16, 16)).astype(np.uint8)
    ours = simulate(program, {"x": given})["y"].astype(np.int64)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    real = (given.astype(np.float32) - 117) * source
    theirs = np.rint(session.run(["y"], {"x": real[None]})[0][0] / result).astype(np.int64) + 101
    centred = np.pad(given.astype(np.int64) - 117, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(centred, (3, 3), (1, 2))
    sums = np.einsum("chwij,cij->chw", windows, weights[:, 0].astype(np.int64))
    factors = np.float64(source) * scales.astype(np.float64) / np.float64(result)
    exact = sums * factors[:, None, None] + 101
    inside = (exact > 0) & (exact < 255)
    assert np.abs(ours - exact)[inside].max() <= 0.5 + 2**-23  # a multiplier of 31 bits, of values below 2^8
    others = inside & (ours != theirs)
    assert others.any()
    assert (np.abs(ours - exact) < np.abs(theirs - exact))[others].all()


def test_what_moves_integers_may_store_them_in_another_format(tmp_path: Path) -> None:
    """As ONNX Runtime's quantiser leaves Slices, which it does not quantise, behind what takes stored integers."""
    fine, coarse = ["fine_scale", "fine_zero"], ["coarse_scale", "coarse_zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *fine], ["x_stored"]),
        helper.make_node("Transpose", ["x_stored"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("DequantizeLinear", ["turned", *fine], ["real"]),
    ]
    for name, form in (("y", coarse), ("z", fine)):
        nodes.append(helper.make_node("Slice", ["real", f"{name}_from", f"{name}_to", "axis"], [f"{name}_half"]))
        nodes.append(helper.make_node("QuantizeLinear", [f"{name}_half", *form], [f"{name}_stored"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_stored", *form], [name]))
    ports = [helper.make_tensor_value_info(name, 1, [1, size, 8, 8]) for name, size in (("x", 6), ("y", 3), ("z", 3))]
    bounds = {"y_from": 0, "y_to": 3, "z_from": 3, "z_to": 6, "axis": 1}
    steps = {"fine_scale": np.float32(0.02), "coarse_scale": np.float32(0.0531)}
    zeros = {"fine_zero": np.uint8(120), "coarse_zero": np.uint8(99)}
    constants: dict[str, Any] = {name: np.array([value]) for name, value in bounds.items()} | steps | zeros
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    path = tmp_path / "moved.onnx"
    program = program_of(helper.make_graph(nodes, "moved", ports[:1], ports[1:], stored), path)
    values = np.random.default_rng(0).uniform(-2, 2, (1, 6, 8, 8)).astype(np.float32)
    largest, differing = farthest(path, program, [{"x": values}])
    assert (largest <= 1, differing < 10) == (True, True)


class _Samples:
    """Calibration inputs for ONNX Runtime's quantiser."""

    def __init__(self, *inputs: NDArray[np.float32]) -> None:
        self._inputs = iter(inputs)

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        values = next(self._inputs, None)
        return None if values is None else {"x": values}


def attention_block(path: Path, form: str) -> None:
    """A class token, places, and a head's attention with its residual: 5 tokens of 16 numbers."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    generator = np.random.default_rng(11)
    shapes: dict[str, tuple[int, ...]] = {"token": (1, 1, 16), "places": (1, 5, 16), "b": (48,)}
    arrays = {name: generator.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays |= {"w": generator.normal(0, 0.2, (16, 48)).astype(np.float32), "quarter": np.float32([0.25])}
    whole = {"rows": [5, 16], "back": [1, 5, 48], "thirds": [16, 16, 16]}
    arrays_of_any: dict[str, Any] = arrays | {name: np.array(value, np.int64) for name, value in whole.items()}
    steps: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("Concat", ["token", "x"], ["tokens"], {"axis": 1}),
        ("Add", ["tokens", "places"], ["placed"], {}),
        ("Reshape", ["placed", "rows"], ["flat"], {}),
        ("Gemm", ["flat", "w", "b"], ["product"], {}),
        ("Reshape", ["product", "back"], ["qkv"], {}),
        ("Split", ["qkv", "thirds"], ["q", "k", "v"], {"axis": 2}),
        ("Mul", ["q", "quarter"], ["small"], {}),
        ("Transpose", ["k"], ["turned"], {"perm": [0, 2, 1]}),
        ("MatMul", ["small", "turned"], ["scores"], {}),
        ("Softmax", ["scores"], ["shares"], {"axis": -1}),
        ("MatMul", ["shares", "v"], ["mixed"], {}),
        ("Add", ["mixed", "placed"], ["y"], {}),
    ]
    nodes = [helper.make_node(kind, *ports, name=ports[1][0], **attributes) for kind, *ports, attributes in steps]
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [1, 4, 16]), ("y", [1, 5, 16]))]
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in arrays_of_any.items()]
    graph = helper.make_graph(nodes, "attention", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path.with_name("float.onnx"))
    samples = _Samples(*(generator.normal(size=(1, 4, 16)).astype(np.float32) for _ in range(4)))
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(path.with_name("float.onnx"), path, samples, QuantFormat[form], per_channel=True, **kinds)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_maps_padded_channels_last_and_volumes(tmp_path: Path, form: str) -> None:
    """Pads of whole windows, and a convolution over three dimensions, as ONNX Runtime quantises them."""
    from onnxruntime.quantization import QuantFormat, quantize_static

    generator = np.random.default_rng(5)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("Transpose", ["c"], ["last"], perm=[0, 2, 3, 1]),
        helper.make_node("Pad", ["last", "pads"], ["padded"]),
        helper.make_node("Transpose", ["padded"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Reshape", ["first", "volume"], ["deep"]),
        helper.make_node("Conv", ["deep", "v"], ["sum"], kernel_shape=[3, 3, 1], pads=[1, 1, 0, 1, 1, 0]),
        helper.make_node("Reshape", ["sum", "plain"], ["y"]),
    ]
    constants: dict[str, NDArray[Any]] = {"pads": np.array([0, 0, 0, 0, 0, 2, 2, 0])}
    constants |= {"volume": np.array([1, 2, 8, 8, 4]), "plain": np.array([1, 3, 8, 32])}
    for name, shape in (("w", (8, 3, 3, 3)), ("v", (3, 2, 3, 3, 1))):
        constants[name] = generator.normal(size=shape).astype(np.float32)
    ports = [
        helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (1, 3, 8, 8)), ("y", (1, 3, 8, 32)))
    ]
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "volumes", ports[:1], ports[1:], stored)
    path, quantised = tmp_path / "volumes.onnx", tmp_path / "quantised.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    inputs = [generator.normal(size=(1, 3, 8, 8)).astype(np.float32) for _ in range(3)]
    quantize_static(path, quantised, _Samples(*inputs), quant_format=QuantFormat[form])
    lowered = lower_quantized(import_onnx(quantised).model)
    program = quantize_affine(lowered, CalibrationStats({}, "formats", 0, ""), AffineScheme(bias_correction=False))
    assert farthest(quantised, program, [{"x": inputs[0]}])[0] <= 1


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_an_attention_block_that_onnx_runtime_quantised(tmp_path: Path, form: str) -> None:
    """Products of several rows, and constants that are added, multiplied and joined, each rounded as in the file."""
    attention_block(tmp_path / "block.onnx", form)
    model = import_onnx(tmp_path / "block.onnx").model
    stats = CalibrationStats({}, "formats", 0, "")
    program = quantize_affine(lower_quantized(model), stats, AffineScheme(bias_correction=False))
    inputs = [{"x": np.random.default_rng(i).normal(size=(1, 4, 16)).astype(np.float32)} for i in range(20)]
    # QOperator as the same network in QDQ form: its own 8-bit kernels saturate without VNNI
    (tmp_path / "read.onnx").write_bytes(model.onnx_bytes)
    largest, differing = farthest(tmp_path / "read.onnx", program, inputs)
    assert largest <= 1
    assert differing <= 20 * 80 * 0.02


@pytest.fixture(params=["QDQ", "QOperator"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A recipe for the small network as ONNX Runtime quantises it."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    generator = np.random.default_rng(0)
    samples = _Samples(*(generator.uniform(0, 255, (1, 1, 40, 40)).astype(np.float32) for _ in range(4)))
    write_project(tmp_path)
    quantize_static(
        tmp_path / "net.onnx",
        tmp_path / "quantised.onnx",
        samples,
        quant_format=QuantFormat[request.param],
        per_channel=True,
        activation_type=QuantType.QInt8 if request.param == "QDQ" else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    text = RECIPE.replace("net.onnx", "quantised.onnx").replace("gap8: {}", "ansi_c: {precision: int8}")
    (tmp_path / "recipe.yaml").write_text(text)
    return tmp_path / "recipe.yaml"


def test_a_quantised_network_keeps_its_integers_from_recipe_to_library(project: Path) -> None:
    outcome = pipeline.run(make_build(project, target="ansi_c"), project.parent / "out")
    report = json.loads((outcome.folder / "report.json").read_text())
    assert report["status"] == "ok"
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["how"], verdict["contract"], verdict["mismatches"]) == ("host", "exact", 0)
    # compared with what ONNX Runtime dequantises, not with what it has before it rounds and cuts off what is negative
    measured = [(each["sqnr_db"], each["clip_rate"]) for each in report["layers"] if each["sqnr_db"] is not None]
    assert len(measured) > 5
    assert all(clipped == 0 and decibels > 40 for decibels, clipped in measured), measured
    generator = np.random.default_rng(5)
    inputs = [{"x": generator.uniform(0, 255, (1, 1, 40, 40)).astype(np.float32)} for _ in range(3)]
    largest, _ = farthest(project.parent / "quantised.onnx", open_build(outcome.folder).program, inputs)
    assert largest <= 1


def test_corrections_of_a_quantised_network_are_refused(project: Path) -> None:
    project.write_text(project.read_text() + "calibration: {corrections: [bias_correction]}\n")
    with pytest.raises(RecipeError, match="quantised already"):
        pipeline.run(make_build(project, target="ansi_c"), project.parent / "out")


def test_a_choice_of_sixteen_bits_of_a_quantised_network_is_refused(project: Path) -> None:
    project.write_text(project.read_text() + "tags: {hp: auto}\n")
    with pytest.raises(RecipeError, match="quantised already") as refused:
        pipeline.run(make_build(project, target="ansi_c"), project.parent / "out")
    assert "remove `hp: auto`" in (refused.value.remedy or "")
    assert "recipe.yaml" in (refused.value.where or "")


@pytest.mark.parametrize("is_shared", [False, True])
def test_weights_that_the_file_has_as_floats_and_quantises(tmp_path: Path, is_shared: bool) -> None:
    """As writers leave them that add a pair of roundings to weights; the exporter gives equal ones an Identity."""
    generator = np.random.default_rng(4)
    constants = {
        "scale": np.float32(0.037),
        "zero": np.int8(-5),
        "weights": generator.normal(0, 0.2, (6, 3, 3, 3)).astype(np.float32),
        "weight_scale": np.linspace(0.004, 0.006, 6, dtype=np.float32),
        "weight_zero": np.zeros(6, np.int8),
    }
    given = ["integers", "weight_scale", "weight_zero"]
    stored = [helper.make_node("DequantizeLinear", given, ["once"], axis=0)] if is_shared else []
    if is_shared:
        constants["integers"] = generator.integers(-90, 91, (6, 3, 3, 3)).astype(np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "scale", "zero"], ["x_dq"]),
        *stored,
        helper.make_node("Identity", ["weights" if not stored else "once"], ["same"]),
        helper.make_node("QuantizeLinear", ["same", "weight_scale", "weight_zero"], ["same_q"], axis=0),
        helper.make_node("DequantizeLinear", ["same_q", "weight_scale", "weight_zero"], ["same_dq"], axis=0),
        helper.make_node("Conv", ["x_dq", "same_dq"], ["v"], name="conv"),
        helper.make_node("QuantizeLinear", ["v", "scale", "zero"], ["v_q"]),
        helper.make_node("DequantizeLinear", ["v_q", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "floats",
        [helper.make_tensor_value_info("x", 1, [1, 3, 9, 9])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "net.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    imported = import_onnx(path, ImportOptions(simplify=False)).model
    scheme = AffineScheme(bias_correction=False)
    program = quantize_affine(lower_quantized(imported), CalibrationStats({}, "formats", 0, ""), scheme)
    inputs = [{"x": generator.standard_normal((1, 3, 9, 9)).astype(np.float32)}]
    largest, differing = farthest(path, program, inputs)
    assert largest <= 1
    assert differing <= 3
