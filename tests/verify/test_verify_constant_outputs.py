"""Outputs that no input moves: seen in both networks, not shown as agreement, and no gate passes on them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.verify.constant_outputs import Constancy, Side, written_constants
from nnkit.verify.float_vs_program import compare_with_float
from nnkit.verify.gates import GateResult, check_gates
from tests.helpers.nnkit_command import run_nnkit
from tests.helpers.one_node import model_of
from tests.verify.test_verify_float_vs_program import model, program, sample

ZEROS, ONES = np.zeros(3), np.ones(3)


@pytest.mark.parametrize(
    ("pairs", "side"),
    [
        ([(ZEROS, ZEROS), (ZEROS, ZEROS)], "both"),
        ([(ZEROS, ZEROS), (ONES, ZEROS)], "quantized"),
        ([(ZEROS, ZEROS), (ZEROS, ONES)], "float"),
        ([(ZEROS, ZEROS), (ONES, ONES)], None),
        ([(np.arange(3), np.arange(3))] * 2, "both"),  # other numbers in other places, and the same for every input
        ([(np.arange(3), np.arange(3))], None),
        ([(np.arange(3), ZEROS)], "quantized"),
        ([(ONES, ONES), (ONES - 2.0**-24, ONES + 2.0**-22)], "both"),  # as float32 rounds
        ([(ONES, ONES), (ONES + 2.0**-18, ONES)], "quantized"),
        ([(ONES - [0, 0, 2.0**-24], ONES)], "both"),
    ],
)
def test_what_no_input_moves(pairs: list[tuple[np.ndarray, np.ndarray]], side: Side | None) -> None:
    one, parts = Constancy(), Constancy()
    for pair in pairs:
        one.add(*pair)
        part = Constancy()
        part.add(*pair)
        parts.merge(part)
    assert one.side == parts.side == side


def test_distances_of_a_constant_output_are_not_measured_and_fail_their_gates() -> None:
    """relu(x) in steps of a half: what stays below a quarter is 0."""
    verdict = compare_with_float(
        model("Relu"), model("Relu"), program(), [sample(0.1, 0.2, 0, 0), sample(0.2, 0.1, 0, 0)]
    )
    assert verdict.constant == {"y": "quantized"}
    assert verdict.outputs.cosine == 0.0  # what was measured stays for who searches
    proven = verdict.without_constant_outputs(program())
    for distance in (proven.outputs, proven.by_output["y"], proven.layers["act"], proven.worst[0].distance):
        assert math.isnan(distance.cosine)
    gates = check_gates({"cosine": 0.0, "max_abs": 9.0, "recall": 0.5}, proven.outputs, None, "why")
    assert [(gate.passed, gate.reason) for gate in gates] == [(False, "why"), (False, "why"), (False, "")]
    assert GateResult.from_json(gates[0].as_json()).reason == "why"


def test_an_output_that_is_written_as_a_constant_is_none_of_these() -> None:
    network = model_of(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["c"], ["k"])],
        {"x": (1, 4)},
        {"c": np.ones((1, 4), np.float32)},
        ["y", "k"],
    )
    assert written_constants(network, ["y", "k"]) == {"k"}


def _asleep(path: Path, bias: float) -> None:
    """A detector: a convolution and a sigmoid, which a bias holds at 0; and its maps beside it, which move."""
    weight = np.random.default_rng(0).normal(0, 0.2, (1, 3, 3, 3)).astype(np.float32)
    constants = {"w": weight, "b": np.array([bias], np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["maps"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Sigmoid", ["maps"], ["alarm"], name="alarm"),
        ],
        "asleep",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 4, 4))],
        [helper.make_tensor_value_info("alarm", TensorProto.FLOAT, (1, 1, 4, 4))],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize(("gates", "code"), [("", 0), ("verify: {gates: {cosine: 0.5}}", 1)])
def test_a_detector_that_never_fires_is_a_doubt_and_passes_no_gate(tmp_path: Path, gates: str, code: int) -> None:
    _asleep(tmp_path / "net.onnx", -14.0)
    random = np.random.default_rng(1)
    for index in range(3):
        np.save(tmp_path / f"{index}.npy", random.normal(0, 1, (1, 3, 4, 4)).astype(np.float32))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "nnkit: 1\nname: asleep\nmodel:\n  path: net.onnx\n  inputs:\n"
        f"    x: {{calibration: {{images: '*.npy'}}}}\ntargets: {{onnx_qdq: {{}}}}\n{gates}\n"
    )
    done = run_nnkit("run", recipe, "--out", tmp_path / "out", "--no-cache")
    assert done.returncode == code, done.stderr
    (summary,) = [line for line in done.stdout.splitlines() if " doubt " in line]
    assert "output 'alarm' of the quantised network is constant over all 3 verification inputs" in summary
    assert "verify.images" in summary
    assert "cosine 1" not in done.stdout
    (folder,) = (tmp_path / "out/asleep").glob("onnx_qdq*")
    report = json.loads((folder / "report.json").read_text())
    distances = report["verify"]["float_vs_program"]
    assert distances["cosine"] is None
    assert distances["sqnr_db"] is None
    assert distances["constant_outputs"] == {"alarm": "quantized"}
    assert "Hold later builds to what this one reaches." not in [each["title"] for each in report["advice"]]
    assert "output &#39;alarm&#39; of the quantised network" in (folder / "report.html").read_text().lower()
    if code:
        assert "gate cosine: at least 0.5 demanded, not measured (output 'alarm'" in done.stderr
