"""A network alone, without pictures: floats are built and compared on drawn inputs, integers are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from nnkit_command import run_nnkit
from onnx import TensorProto, helper, numpy_helper
from small_project import write_project

from tests.end_to_end.networks import Net


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`net.onnx`, and pictures in `images`."""
    write_project(tmp_path, images=4).unlink()
    return tmp_path


def test_floats_need_no_pictures_and_what_is_not_shown_is_said(folder: Path) -> None:
    done = run_nnkit("run", "net.onnx", "-t", "ansi_c", "--set", "targets.ansi_c.precision=float32", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "on 16 drawn inputs" in done.stdout
    said = "accuracy on real data and the ranges of real values are not"
    build = folder / "out/net/ansi_c"
    report = json.loads((build / "report.json").read_text())
    assert report["verify"]["float_vs_program"]["drawn"] == {"x": "pixels 0..255"}
    assert report["calibration"]["images"] == 0
    for text in (done.stdout, *report["doubts"], (build / "report.html").read_text()):
        assert said in text
    session = onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    (output,) = session.get_outputs()
    given = np.load(build / "verify/0_x_float.npy")
    (kept,) = (np.load(path) for path in (build / "verify").glob("0_*.npy") if not path.name.startswith("0_x"))
    np.testing.assert_allclose(
        kept.ravel(), session.run([output.name], {"x": given})[0].ravel(), rtol=1e-4, atol=1e-5
    )


def test_integers_without_pictures_are_refused_with_a_remedy_that_works(folder: Path) -> None:
    command = ("run", "net.onnx", "--target", "onnx_qdq", "--set", "verify.gates={}")
    done = run_nnkit(*command, cwd=folder)
    assert done.returncode == 2
    assert "no calibration images for input 'x'" in done.stderr
    assert "--images DIR" in done.stderr
    assert run_nnkit(*command, "--images", "images", cwd=folder).returncode == 0
    assert run_nnkit("plan", "out/net.yaml", cwd=folder).returncode == 0


def test_a_network_alone_is_planned_and_checked_for_a_chip(folder: Path) -> None:
    planned = run_nnkit("plan", "net.onnx", "--target", "cv181x", cwd=folder)
    assert (planned.returncode, "plan for tpu" in planned.stdout) == (0, True), planned.stderr
    without = run_nnkit("check", "net.onnx", "--target", "hi3516dv300", cwd=folder)
    assert (without.returncode, "net.onnx (its first recipe)" in without.stderr) == (2, True), without.stderr
    given = ("--target", "hi3516dv300", "--images", "images")
    assert run_nnkit("check", "net.onnx", *given, cwd=folder).returncode == 0
    assert [path.name for path in folder.iterdir() if path.suffix == ".yaml"] == []


def _quantised(path: Path, last: list[onnx.NodeProto]) -> None:
    """x [1, 12] -> Gemm in int8 -> `last`, from `p` to `y` [1, 5]: as quantisers write it."""
    rng = np.random.default_rng(5)
    constants = {
        "s": np.float32(0.02),
        "z": np.int8(0),
        "ws": np.float32(0.004),
        "w": rng.integers(-127, 128, (5, 12)).astype(np.int8),
        "ys": np.float32(0.03),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xd"], name="d"),
        helper.make_node("DequantizeLinear", ["w", "ws", "z"], ["wd"], name="dw"),
        helper.make_node("Gemm", ["xd", "wd"], ["p"], name="fc", transB=1),
        *last,
    ]
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in read],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_what_is_quantised_already_needs_no_pictures_and_init_keeps_its_integers(tmp_path: Path) -> None:
    stored = [
        helper.make_node("QuantizeLinear", ["p", "ys", "z"], ["yq"], name="yq"),
        helper.make_node("DequantizeLinear", ["yq", "ys", "z"], ["y"], name="yd"),
    ]
    _quantised(tmp_path / "net.onnx", stored)
    begun = run_nnkit("init", "net.onnx", "-t", "ansi_c", "-t", "gap8", cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    for written in ("  ansi_c: {precision: int8}", "  gap8: {scheme: affine}"):
        assert written in (tmp_path / "recipe.yaml").read_text()
    planned = run_nnkit("plan", "recipe.yaml", "-t", "ansi_c", cwd=tmp_path)
    assert "s8 affine 0.03" in planned.stdout  # the scale of its file
    done = run_nnkit("run", "recipe.yaml", "-t", "ansi_c", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("on 16 drawn inputs" in done.stdout, "unseen" in done.stdout) == (True, False)
    build = tmp_path / "out/net/ansi_c"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # fused, it saturates sums
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", options, providers=["CPUExecutionProvider"])
    given = np.load(build / "verify/0_x_float.npy")
    (kept,) = (np.load(path) for path in (build / "verify").glob("0_*.npy") if not path.name.startswith("0_x"))
    expected = session.run(["y"], {"x": given.reshape(1, 12)})[0]
    np.testing.assert_array_equal(kept.ravel(), np.rint(expected.ravel() / np.float32(0.03)))


def test_what_is_quantised_already_has_learnt_nothing_of_the_inputs_at_hand(tmp_path: Path) -> None:
    """No figure flatters, and no input is new, where the file's formats are kept."""
    stored = [
        helper.make_node("QuantizeLinear", ["p", "ys", "z"], ["yq"], name="yq"),
        helper.make_node("DequantizeLinear", ["yq", "ys", "z"], ["y"], name="yd"),
    ]
    _quantised(tmp_path / "net.onnx", stored)
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays/a.npy", np.full((1, 12), 9.0, np.float32))  # formats of its file end at 2.54 and 3.81
    done = run_nnkit("run", "net.onnx", "-t", "ansi_c:cortex-m4", "--images", "arrays", cwd=tmp_path)
    assert (done.returncode, "on 1 input\n" in done.stdout) == (0, True), done.stderr
    for false in ("flatter", "calibration saw", "calibrated on one input", "alibrate with more inputs"):
        assert false not in done.stdout
    report = json.loads((tmp_path / "out/net/ansi_c/report.json").read_text())
    assert (report["doubts"], [each["title"] for each in report["advice"] if "alibrate" in each["title"]]) == ([], [])


def test_pictures_that_no_input_takes_are_refused(tmp_path: Path) -> None:
    stored = [helper.make_node("Sigmoid", ["p"], ["y"], name="tail")]
    _quantised(tmp_path / "net.onnx", stored)
    (tmp_path / "other").mkdir()
    write_project(tmp_path / "other", images=4)
    done = run_nnkit("init", "net.onnx", "-t", "ansi_c", "--images", "other/images", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "recipe.yaml").exists()) == (2, False)
    assert "no input of the network looks like a picture: x 1x12" in done.stderr
    assert "give a folder with arrays of these shapes, as .npy files" in done.stderr


def test_an_error_about_a_network_alone_names_its_own_path(tmp_path: Path) -> None:
    net = Net((2, 3, 8, 8))
    net.save(tmp_path / "net.onnx", net.node("Relu", ["x"], 3))
    done = run_nnkit("check", "net.onnx", "-t", "ansi_c", cwd=tmp_path)
    assert (done.returncode, done.stderr.startswith(f"error: {tmp_path}/net.onnx: ")) == (3, True), done.stderr


def test_every_input_without_images_is_named_and_a_remedy_that_is_followed_works(tmp_path: Path) -> None:
    sizes = "float[1, 12]"
    text = f'<ir_version: 8, opset_import: ["": 17]> net ({sizes} x, {sizes} z) => ({sizes} y) {{ y = Add(x, z) }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert run_nnkit("init", "net.onnx", "-t", "ansi_c", cwd=tmp_path).returncode == 0
    keys = [f"model.inputs.{name}.calibration.images" for name in "xz"]
    int8, float32 = ("--set=targets.ansi_c.precision=int8", "--set=targets.ansi_c.precision=float32")
    said = run_nnkit("check", "recipe.yaml", int8, cwd=tmp_path).stderr
    assert ("no calibration images for input 'x' and 'z'" in said, " and ".join(keys) in said) == (True, True), said
    drawn = run_nnkit("run", "recipe.yaml", float32, "--set=verify.gates={}", cwd=tmp_path)
    assert (drawn.returncode, " and ".join(keys) in drawn.stdout) == (0, True), drawn
    for name in "xz":
        np.save(tmp_path / f"{name}.npy", np.ones((1, 12), np.float32))
    given = [f"--set={key}={name}.npy" for key, name in zip(keys, "xz", strict=True)]
    one = run_nnkit("check", "recipe.yaml", float32, given[0], cwd=tmp_path)
    assert (one.returncode, keys[1] in one.stderr) == (2, True), one
    for precision in (int8, float32):
        assert run_nnkit("check", "recipe.yaml", precision, *given, cwd=tmp_path).returncode == 0


def test_values_without_dimensions_between_layers_are_computed(tmp_path: Path) -> None:
    layers = "m = ReduceMax<keepdims = 0>(x) n = Neg(m) y = Add(x, n)"
    text = f'<ir_version: 8, opset_import: ["": 17]> net (float[1, 4, 6] x) => (float[1, 4, 6] y) {{ {layers} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = run_nnkit("run", "net.onnx", "-t", "ansi_c", "--set", "targets.ansi_c.precision=float32", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    x, y = (np.load(tmp_path / f"out/net/ansi_c/verify/0_{name}.npy").ravel() for name in ("x_float", "y"))
    np.testing.assert_allclose(y, x - x.max(), atol=1e-6)


def test_an_input_that_nothing_uses_may_be_in_a_recipe(tmp_path: Path) -> None:
    sizes = "float[1, 12]"
    text = f'<ir_version: 8, opset_import: ["": 17]> net ({sizes} x, {sizes} z) => ({sizes} y) {{ y = Neg(x) }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert run_nnkit("init", "net.onnx", "-t", "ansi_c", cwd=tmp_path).returncode == 0
    done = run_nnkit("check", "recipe.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    planned = run_nnkit("plan", "net.onnx", "-t", "ansi_c", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    unknown = run_nnkit("check", "recipe.yaml", "--set", "model.inputs.other.shape=[1, 12]", cwd=tmp_path)
    assert (unknown.returncode, "no input 'other'" in unknown.stderr) == (2, True), unknown.stderr


def test_a_run_of_a_network_alone_names_its_path_without_the_way_there(tmp_path: Path) -> None:
    net = Net((2, 3, 8, 8))
    net.save(tmp_path / "net.onnx", net.node("Relu", ["x"], 3))
    done = run_nnkit("run", "net.onnx", "-t", "ansi_c", cwd=tmp_path)
    assert (done.returncode, f"error: {tmp_path}/net.onnx: " in done.stderr) == (3, True), done.stderr


def test_one_layer_is_counted_as_one(tmp_path: Path) -> None:
    net = Net((1, 3, 8, 8))
    net.save(tmp_path / "net.onnx", net.node("Relu", ["x"], 3))
    planned = run_nnkit("plan", "net.onnx", "-t", "ansi_c", cwd=tmp_path)
    assert ("  cpu  1 layer: " in planned.stdout, " 1 op\n" in planned.stderr) == (True, True), planned


def test_a_quantised_network_with_a_float_tail_needs_pictures(tmp_path: Path) -> None:
    _quantised(tmp_path / "net.onnx", [helper.make_node("Sigmoid", ["p"], ["y"], name="tail")])
    done = run_nnkit("check", "net.onnx", "-t", "ansi_c", cwd=tmp_path)
    assert (done.returncode, "no calibration images for input 'x'" in done.stderr) == (2, True), done.stderr


def test_a_recipe_that_is_refused_is_not_called_the_next_step(tmp_path: Path) -> None:
    net = Net((1, 1, 8, 8))
    net.save(tmp_path / "net.onnx", net.node("Mod", [net.conv("x", 4), net.conv("x", 4)], 4, fmod=1))
    done = run_nnkit("init", "net.onnx", "-t", "gap8", cwd=tmp_path)
    assert (done.returncode, "  next " in done.stdout) == (3, False), done.stdout


def test_a_first_recipe_has_one_scale_for_all_channels_where_the_chip_has(folder: Path) -> None:
    net = Net((1, 3, 8, 8))
    net.save(folder / "colour.onnx", net.conv("x", 4))
    for target, std in (("hi3516dv300", "0.226"), ("onnx_qdq", "[0.229, 0.224, 0.225]")):
        out = f"{target}.yaml"
        begun = run_nnkit("init", "colour.onnx", "-t", target, "--images", "images", "-o", out, cwd=folder)
        assert (begun.returncode, f"std: {std}" in (folder / out).read_text()) == (0, True), begun.stderr


def test_an_output_that_is_left_out_is_named_by_every_command(tmp_path: Path) -> None:
    net = Net((1, 3, 8, 8))
    net.save(tmp_path / "net.onnx", net.node("Relu", ["x"], 3))
    proto = onnx.load(tmp_path / "net.onnx")
    proto.graph.initializer.append(numpy_helper.from_array(np.arange(6, dtype=np.float32), "anchors"))
    proto.graph.output.append(helper.make_tensor_value_info("anchors", TensorProto.FLOAT, [6]))
    onnx.save(proto, tmp_path / "net.onnx")
    floats = ("-t", "ansi_c", "--set", "targets.ansi_c.precision=float32")
    for command in ("check", "plan", "run", "run"):  # the last finds the import in the cache
        done = run_nnkit(command, "net.onnx", *floats, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "left out of the outputs, as they are the same for every input: anchors" in done.stdout + done.stderr
