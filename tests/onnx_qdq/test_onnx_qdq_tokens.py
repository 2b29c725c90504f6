"""Networks over token ids: the rows of a table by their numbers, in integers, and a small encoder behind them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.importers import import_onnx

STEPS, ROWS, FEATURES = 12, 50, 16


def _floats(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 0.5, shape).astype(np.float32)


def network(folder: Path, *, attention: bool) -> Path:
    """int64 ids [1, 12] -> embedding, place; attention of one head with its residual and normalisation; 4 classes."""
    constants: dict[str, NDArray[Any]] = {
        "table": _floats(1, ROWS, FEATURES),
        "place": _floats(2, STEPS, FEATURES),
        "gain": _floats(3, FEATURES) + 1,
        "offset": _floats(4, FEATURES),
        "last": _floats(5, FEATURES, 4),
        "scale": np.float32(FEATURES**-0.5),
        **{name: _floats(6 + index, FEATURES, FEATURES) for index, name in enumerate(("q", "k", "v"))},
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="rows"),
        helper.make_node("Add", ["rows", "place"], ["x"], name="placed"),
    ]
    if attention:
        nodes += [helper.make_node("MatMul", ["x", name], [f"{name}x"], name=f"to_{name}") for name in "qkv"]
        nodes += [
            helper.make_node("Transpose", ["kx"], ["kt"], name="turned", perm=[0, 2, 1]),
            helper.make_node("MatMul", ["qx", "kt"], ["scores"], name="scores"),
            helper.make_node("Mul", ["scores", "scale"], ["scaled"], name="scaled"),
            helper.make_node("Softmax", ["scaled"], ["weights"], name="weights", axis=-1),
            helper.make_node("MatMul", ["weights", "vx"], ["seen"], name="seen"),
            helper.make_node("Add", ["x", "seen"], ["sum"], name="sum"),
            helper.make_node("LayerNormalization", ["sum", "gain", "offset"], ["x2"], name="norm", axis=-1),
        ]
    nodes.append(helper.make_node("MatMul", ["x2" if attention else "x", "last"], ["y"], name="classes"))
    graph = helper.make_graph(
        nodes,
        "tokens",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, (1, STEPS))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    for index in range(5):
        np.save(folder / f"ids_{index}.npy", np.random.default_rng(index).integers(0, ROWS, (1, STEPS)))
    return path


def recipe(folder: Path, target: str) -> Path:
    path = folder / "recipe.yaml"
    given = "{ids: {calibration: {images: 'ids_[0-3].npy'}}}"
    path.write_text(
        f"nnkit: 1\nname: tokens\nmodel: {{path: net.onnx, inputs: {given}}}\n"
        f"targets: {{{target}}}\nverify: {{images: {{ids: ids_4.npy}}}}\n"
    )
    return path


@pytest.mark.parametrize(
    ("target", "attention", "least_db"),
    [
        ("onnx_qdq: {}", True, 25.0),
        ("onnx_qdq: {precision: int16}", True, 60.0),
        ("ansi_c: {precision: int8}", False, 30.0),
        ("gap8: {precision: int8}", True, 20.0),
        ("nnie: {chip: hi3516cv500, outside_limits: custom}", True, 25.0),
    ],
)
def test_a_network_on_tokens_is_built(target: str, attention: bool, least_db: float, tmp_path: Path) -> None:
    network(tmp_path, attention=attention)
    done = CliRunner().invoke(
        app, ["run", str(recipe(tmp_path, target)), "--out", str(tmp_path / "out"), "--no-cache"]
    )
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out" / "tokens" / target.split(":")[0] / "report.json").read_text())
    compared = [entry for entry in report["verify"]["program_vs_artifact"] if entry["contract"] != "not_run"]
    assert [entry["mismatches"] for entry in compared] == [0] * len(compared)
    assert min(entry["values"] for entry in compared) > 0
    assert report["verify"]["float_vs_program"]["sqnr_db"] > least_db


def test_the_imported_network_gives_the_file_s_numbers(tmp_path: Path) -> None:
    path = network(tmp_path, attention=True)
    ids = np.load(tmp_path / "ids_4.npy")
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"ids": ids})
    model = import_onnx(path).model
    session = onnxruntime.InferenceSession(model.onnx_bytes)
    (found,) = session.run(None, {"ids": ids.astype(np.float32)})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
