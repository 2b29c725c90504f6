"""TFLite files through the import and the build: what is kept, what is refused, and that the artifact runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.litert import integer_program, reference_tensors
from fuzz.tflite_files import SCALE, ZERO, TfliteFile
from nnkit.cli import app
from nnkit.errors import ModelError, ToolError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.tflite_importer import import_tflite
from nnkit.program.affine import AffineConv


def _net(dtype: str, path: Path) -> TfliteFile:
    """A convolution, a pool and a fully connected layer, over 8 x 8 pixels of 4 channels."""
    net = TfliteFile(dtype)
    x = net.input(1, 8, 8, 4)
    strides = {"strideH": 1, "strideW": 1, "fusedActivationFunction": 1}
    maps = net.op("CONV_2D", [x, *net.weights((6, 3, 3, 4), 0)], (1, 8, 8, 6), "Conv2DOptions", **strides)
    window = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, "padding": 1}
    pooled = net.op("MAX_POOL_2D", [maps], (1, 4, 4, 6), "Pool2DOptions", **window)
    rows = net.op("RESHAPE", [pooled, net.ints(1, 96)], (1, 96), "ReshapeOptions")
    weights = net.weights((5, 96), 0)
    last = net.op("FULLY_CONNECTED", [rows, *weights], (1, 5), "FullyConnectedOptions", scale=(0.2, 0))
    net.write(path, last)
    return net


def test_the_file_s_integers_and_formats_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    net = _net("i1", path)
    program = integer_program(path)
    conv = next(op for op in program.ops if isinstance(op, AffineConv))
    weights, biases = (np.asarray(net.buffers[net.tensors[index].buffer].data) for index in (1, 2))
    np.testing.assert_array_equal(conv.weight, weights.view(np.int8).reshape(6, 3, 3, 4).transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(conv.bias, biases.view(np.int32))
    assert conv.weight_format.scale == tuple(net.tensors[1].quantization.scale.tolist())
    source = program.tensors[program.inputs[0]].format
    assert (source.scale[0], source.zero_point[0]) == (float(np.float32(SCALE["i1"])), ZERO["i1"])


@pytest.mark.parametrize("target", ["onnx_qdq: {}", "ansi_c: {precision: int8}", "ansi_c: {precision: int16}"])
def test_a_build_computes_what_litert_does(target: str, tmp_path: Path) -> None:
    """The artifact is compared with the program in the run; here its outputs with LiteRT's, within two units: one of
    the convolution's may move one of the last layer's by another."""
    dtype = "i2" if "int16" in target else "i1"
    _net(dtype, tmp_path / "net.tflite")
    for index in range(3):
        np.save(
            tmp_path / f"x{index}.npy", np.random.default_rng(index).normal(0, 2, (1, 4, 8, 8)).astype(np.float32)
        )
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "nnkit: 1\nname: net\nmodel:\n  path: net.tflite\n  inputs: {t0: {calibration: {images: 'x[01].npy'}}}\n"
        f"targets: {{{target}}}\nverify: {{images: {{t0: x2.npy}}}}\n"
    )
    done = CliRunner().invoke(app, ["run", str(recipe), "--out", str(tmp_path / "out"), "--no-cache"])
    assert done.exit_code == 0, done.output
    build = tmp_path / "out" / "net" / target.split(":")[0]
    report = json.loads((build / "report.json").read_text())
    (compared,) = report["verify"]["program_vs_artifact"]
    assert compared["mismatches"] == 0
    assert compared["values"] > 0
    x, y = str(tmp_path / "x2.npy"), tmp_path / "y.npy"
    command = ["simulate", str(build), "--input", x, "--output", str(y), "--on", "program"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    info = np.iinfo(np.int16 if dtype == "i2" else np.int8)
    stored = np.rint(np.load(tmp_path / "x2.npy").transpose(0, 2, 3, 1) / np.float32(SCALE[dtype])) + ZERO[dtype]
    given = np.clip(stored, info.min, info.max).astype(info.dtype)
    theirs = list(reference_tensors(tmp_path / "net.tflite", [given]).values())[-1]
    np.testing.assert_allclose(
        np.load(tmp_path / "y.npy").reshape(-1), theirs.reshape(-1) * np.float32(0.2), atol=0.41
    )


def test_an_input_whose_zero_point_its_type_cannot_hold_is_told(tmp_path: Path) -> None:
    net = TfliteFile("i1")
    x = net.tensor((1, 4), "i1", scale=[0.1], zero=[300])
    net.inputs.append(x)
    path = net.write(tmp_path / "net.tflite", net.op("RELU", [x], (1, 4)))
    with pytest.raises(ModelError, match="an input: the zero point of 't0' is outside of its type") as caught:
        import_tflite(path)
    assert caught.value.where == str(path)
    assert "convert the network again" in caught.value.remedy


def test_integer_weights_of_a_float_network_are_floats(tmp_path: Path) -> None:
    """As the converter's dynamic range quantisation writes them."""
    net = TfliteFile("f4")
    x = net.input(1, 6)
    integers = np.random.default_rng(0).integers(-127, 128, (4, 6))
    weight = net.tensor((4, 6), "i1", integers, [0.01], [0])
    result = net.op("FULLY_CONNECTED", [x, weight, -1], (1, 4), "FullyConnectedOptions")
    path = net.write(tmp_path / "net.tflite", result)
    model = import_tflite(path).model
    assert [node.op_type for node in model.proto().graph.node] == ["Gemm"]
    given = np.random.default_rng(1).normal(0, 1, (1, 6)).astype(np.float32)
    (found,) = FloatSession(model).run({"t0": given}).values()
    np.testing.assert_allclose(found, given @ (integers.T * np.float32(0.01)), rtol=1e-5, atol=1e-6)


def test_all_operators_that_cannot_be_imported_are_named(tmp_path: Path) -> None:
    net = TfliteFile("f4")
    x = net.input(1, 4, 4, 2)
    y = net.op("LOCAL_RESPONSE_NORMALIZATION", [x], (1, 4, 4, 2))
    z = net.op("CEIL", [net.op("RELU", [y], (1, 4, 4, 2))], (1, 4, 4, 2))
    with pytest.raises(ModelError) as caught:
        import_tflite(net.write(tmp_path / "net.tflite", z))
    assert "2 layers cannot be imported (1 CEIL, 1 LOCAL_RESPONSE_NORMALIZATION)" in str(caught.value)


def test_a_negative_padding_is_refused(tmp_path: Path) -> None:
    """TFLite has none; in ONNX it cuts off, and a slice of what is then left of nothing ended the tools' process."""
    net = TfliteFile("f4")
    x = net.input(1, 4, 4, 2)
    pads = net.pairs((0, 0), (-5, 0), (0, 0), (0, 0))
    with pytest.raises(ModelError, match="it pads by -5"):
        import_tflite(net.write(tmp_path / "net.tflite", net.op("PAD", [x, pads], (1, 1, 4, 2), "PadOptions")))


@pytest.mark.parametrize("rows", [4, 5])
def test_a_window_beyond_its_input_is_refused(rows: int, tmp_path: Path) -> None:
    """It has no place to stand; a slice of what then has less than no columns ended the tools' process."""
    net = TfliteFile("f4")
    window = {"strideH": 1, "strideW": 1, "filterHeight": rows, "filterWidth": 4, "padding": 1}
    path = net.write(
        tmp_path / "net.tflite",
        net.op("MAX_POOL_2D", [net.input(1, 4, 4, 2)], (1, 1, 1, 2), "Pool2DOptions", **window),
    )
    if rows == 4:
        assert import_tflite(path).model.outputs
        return
    with pytest.raises(ModelError, match="its window of 5x4 is larger than its input of 4x4"):
        import_tflite(path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a TFLite model"),
        (b"not one at all", "not a TFLite model"),
        (b"\x20\0\0\0TFL3\0\0", "truncated or damaged"),
    ],
)
def test_what_is_no_network_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=reason):
        import_tflite(path)


def _with_state(net: TfliteFile) -> int:
    x = net.input(1, 4)
    handle = net.op("VAR_HANDLE", [], (), "VarHandleOptions", sharedName=b"state")
    read = net.op("READ_VARIABLE", [handle], (1, 4), "ReadVariableOptions")
    net.outputs_of("ASSIGN_VARIABLE", [handle, x], [], "AssignVariableOptions", {})
    return net.op("ADD", [x, read], (1, 4), "AddOptions")


def _with_recurrence(net: TfliteFile) -> int:
    return net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [net.input(1, 3, 4)], (1, 3, 2))


def _with_branches(net: TfliteFile) -> int:
    return net.op("IF", [net.input(1, 4)], (1, 4), "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)


def _of_scale_zero(net: TfliteFile) -> int:
    result = net.op("RELU", [net.input(1, 4)], (1, 4))
    net.tensors[result].quantization.scale = np.zeros(1, np.float32)
    return result


@pytest.mark.parametrize(
    ("build", "reason", "remedy"),
    [
        (_with_state, "state in variables of the file (ASSIGN_VARIABLE, READ_VARIABLE, VAR_HANDLE)", "as inputs and"),
        (
            _with_recurrence,
            "UNIDIRECTIONAL_SEQUENCE_LSTM): nnkit imports no such operator; convert",
            "these operators",
        ),
        (_with_branches, "control flow (IF)", "convert the branch that is used"),
        (_of_scale_zero, "the scale of tensor 't1' is 0; a scale is above 0", "calibrate with inputs that reach"),
    ],
)
def test_the_message_says_what_was_found(
    build: Callable[[TfliteFile], int], reason: str, remedy: str, tmp_path: Path
) -> None:
    net = TfliteFile("i1")
    path = net.write(tmp_path / "net.tflite", build(net))
    with pytest.raises(ModelError) as caught:
        import_tflite(path)
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy
    assert "damaged" not in caught.value.reason


def test_a_half_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    _net("i1", path)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(ModelError, match="truncated or damaged"):
        import_tflite(path)


def test_without_the_extra_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.tflite"
    _net("f4", path)
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(ToolError, match=r"-m pip install .*\[tflite\]"):
        import_tflite(path)


def test_init_writes_a_recipe(tmp_path: Path) -> None:
    _net("i1", tmp_path / "net.tflite")
    done = CliRunner().invoke(app, ["init", str(tmp_path / "net.tflite"), "--out", str(tmp_path / "r.yaml")])
    assert done.exit_code == 0, done.output
    assert "t0" in (tmp_path / "r.yaml").read_text()
    done = CliRunner().invoke(app, ["check", str(tmp_path / "r.yaml")])
    assert done.exit_code == 0, done.output
