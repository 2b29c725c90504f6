"""Layers of the user's own in a prototxt, defined in the recipe: in float, in the simulation, and in C."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build
from typer.testing import CliRunner

from benchmarks.caffe_corpus import caffemodel
from nnkit import pipeline
from nnkit.cache import StageCache
from nnkit.cli import app
from nnkit.cpu_segments import run_segment, segment_source
from nnkit.errors import ModelError, RecipeError, ToolError, UsageError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.stages import Build, import_model

NET = """\
name: "n"
input: "data"
input_shape { dim: 1 dim: 3 dim: 12 dim: 10 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "mine" type: "%s" bottom: "conv1" top: "mine" %s }
layer { name: "conv2" type: "Convolution" bottom: "mine" top: "conv2"
  convolution_param { num_output: 2 kernel_size: 1 } }
"""
CUSTOM = "custom_param { shape { dim: 1 dim: 4 dim: 6 dim: 5 } }"
RECIPE = """\
nnkit: 1
name: net
model:
  path: net.prototxt
  weights: net.caffemodel
  custom_layers: {%s}
  inputs: {data: {preprocess: {color: bgr}, calibration: {images: a.npy}}}
targets: {nnie: {chip: hi3516dv300, compile_mode: 1}}
verify: {images: a.npy}
"""
PYTHON = """\
import numpy as np

def halved(x):
    n, c, h, w = x.shape
    return np.tanh(x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5)))
"""
C = """\
#include <math.h>
void halved(const float *in, float *out);
void halved(const float *in, float *out)
{
    int c, y, x;
    for (c = 0; c < 4; c++)
        for (y = 0; y < 6; y++)
            for (x = 0; x < 5; x++) {
                const float *at = in + (c * 12 + 2 * y) * 10 + 2 * x;
                float most = at[0] > at[1] ? at[0] : at[1];
                most = at[10] > most ? at[10] : most;
                most = at[11] > most ? at[11] : most;
                out[(c * 6 + y) * 5 + x] = (float)tanh((double)most);
            }
}
"""


def subgraph() -> onnx.ModelProto:
    """The same as PYTHON, as ONNX, with a constant and names that the prototxt has too."""
    nodes = [
        helper.make_node("MaxPool", ["conv1"], ["data"], name="conv1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Mul", ["data", "one"], ["again"], name="times"),
        helper.make_node("Tanh", ["again"], ["result"], name="tanh"),
    ]
    graph = helper.make_graph(
        nodes,
        "mine",
        [helper.make_tensor_value_info("conv1", TensorProto.FLOAT, [1, 4, 12, 10])],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, [1, 4, 6, 5])],
        [numpy_helper.from_array(np.full((1, 4, 1, 1), 1.0, np.float32), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test comes to trust, the next one does not."""
    monkeypatch.setenv("NNKIT_TRUSTED_SOURCES", "")
    monkeypatch.delenv("CI", raising=False)


def project(folder: Path, definition: str, kind: str = "Custom", parameters: str = CUSTOM) -> Path:
    random = np.random.default_rng(0)
    weights = {
        "conv1": [random.normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32), np.zeros(4, np.float32)],
        "conv2": [random.normal(0, 0.5, (2, 4, 1, 1)).astype(np.float32), np.ones(2, np.float32)],
    }
    (folder / "net.prototxt").write_text(NET % (kind, parameters))
    (folder / "net.caffemodel").write_bytes(caffemodel(weights))
    (folder / "mine.py").write_text(PYTHON)
    (folder / "mine.c").write_text(C)
    onnx.save(subgraph(), folder / "mine.onnx")
    np.save(folder / "a.npy", random.normal(0, 1, (1, 3, 12, 10)).astype(np.float32))
    (folder / "recipe.yaml").write_text(RECIPE % definition)
    return folder / "recipe.yaml"


def expected(build: Build, folder: Path) -> dict[str, np.ndarray]:
    """By the definition's words: the convolutions by ONNX Runtime, the layer by numpy."""
    model = import_model(build).model
    image = np.load(folder / "a.npy")
    values = FloatSession(model).run({"data": image}, ["conv1", "mine", "conv2"])
    pooled = np.maximum.reduce([values["conv1"][..., i::2, j::2] for i in (0, 1) for j in (0, 1)])
    np.testing.assert_allclose(values["mine"], np.tanh(pooled), atol=1e-6)
    return values


@pytest.mark.parametrize(
    ("definition", "kind", "parameters"),
    [
        ("mine: {onnx: mine.onnx}", "Custom", CUSTOM),
        ("mine: {onnx: mine.onnx, shapes: [[1, 4, 6, 5]]}", "HalvedTanh", ""),
        ("mine: {python: mine.py, c: mine.c, function: halved}", "Custom", CUSTOM),
        ("'mi*': {python: mine.py, c: mine.c, function: halved, shapes: [[1, 4, 6, 5]]}", "HalvedTanh", ""),
    ],
)
def test_mistake_3_a_layer_of_the_users_own_is_built_and_run(
    definition: str, kind: str, parameters: str, tmp_path: Path
):
    cache = StageCache(tmp_path / "cache")  # one import for the run and for what it is compared with
    build = make_build(project(tmp_path, definition, kind, parameters), cache, target="nnie", trusted=True)
    values = expected(build, tmp_path)
    done = pipeline.run(build, tmp_path / "out")
    assert done.status == "ok"
    artifact = done.folder / "artifact"
    written = (artifact / "net.prototxt").read_text()
    assert written.count('type: "Custom"') == 1
    assert written.count("layer {") == 4  # the input is one
    shape = " ".join(written.partition("custom_param")[2].partition("}")[0].split())
    assert shape == "{ shape { dim: 1 dim: 4 dim: 6 dim: 5"
    (segment,) = (artifact / "cpu").iterdir()
    found = run_segment(segment, segment.name, {"conv1": values["conv1"]}, sanitize=True)
    np.testing.assert_allclose(found["mine"], values["mine"], atol=1e-6)
    runners = {each["how"]: each for each in done.report["verify"]["program_vs_artifact"]}
    assert runners["cpu_c"]["mismatches"] == 0


def test_python_without_c_serves_the_float_network_and_is_refused_for_the_board(tmp_path: Path):
    build = make_build(project(tmp_path, "mine: {python: mine.py, function: halved}"), target="nnie", trusted=True)
    expected(build, tmp_path)
    with pytest.raises(ModelError, match=r"mine \(Custom\): it runs on the CPU, .* it has Python, but no C"):
        pipeline.preview(build)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("nothing: {onnx: mine.onnx}", "'nothing' matches no layer"),
        ("conv1: {onnx: mine.onnx}", "layer 'conv1' is a Convolution, which nnkit knows"),
    ],
)
def test_globs_that_match_no_layer_of_the_users_own(definition: str, reason: str, tmp_path: Path):
    with pytest.raises(RecipeError, match=reason) as caught:
        import_model(make_build(project(tmp_path, definition), target="nnie", trusted=True))
    assert "mine" in caught.value.remedy or "Custom" in caught.value.remedy


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("mine: {onnx: mine.onnx, c: mine.c}", "`c` and `function` belong to `python`"),
        ("mine: {}", "a layer is defined by `onnx` or by `python`"),
        ("mine: {python: mine.py}", "the name of the function is missing"),
        ("mine: {python: mine.py, function: '1x'}", "function"),
    ],
)
def test_definitions_that_are_none(definition: str, reason: str, tmp_path: Path):
    with pytest.raises(RecipeError, match=reason):
        make_build(project(tmp_path, definition), target="nnie", trusted=True)


def test_shapes_that_differ(tmp_path: Path):
    recipe = project(tmp_path, "mine: {onnx: mine.onnx, shapes: [[1, 4, 12, 10]]}")
    with pytest.raises(ModelError, match=r"has outputs \[1, 4, 6, 5\], the layer \[1, 4, 12, 10\]"):
        import_model(make_build(recipe, target="nnie", trusted=True))
    recipe = project(tmp_path, "mine: {python: mine.py, function: halved, shapes: [[1, 4, 12, 10]]}")
    model = import_model(make_build(recipe, target="nnie", trusted=True)).model
    with pytest.raises(ModelError, match=r"'halved' gives \[1, 4, 6, 5\], its shapes are \[1, 4, 12, 10\]"):
        FloatSession(model).run({"data": np.load(tmp_path / "a.npy")})


def test_a_function_that_fails_is_told_with_its_error(tmp_path: Path):
    recipe = project(tmp_path, "mine: {python: mine.py, function: halved}")
    (tmp_path / "mine.py").write_text("def halved(x):\n    return x / undefined\n")
    model = import_model(make_build(recipe, target="nnie", trusted=True)).model
    with pytest.raises(ModelError, match=r"'halved' fails: NameError: name 'undefined' is not defined"):
        FloatSession(model).run({"data": np.load(tmp_path / "a.npy")})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (C.replace("int c, y, x;\n    for (c", "int y, x;\n    for (int c"), "C99"),
        (C.replace("halved(", "other("), "undefined reference to `halved'"),
    ],
)
def test_c_that_does_not_compile_is_told_as_the_users_own(source: str, reason: str, tmp_path: Path):
    project(tmp_path, "mine: {python: mine.py, c: mine.c, function: halved}")
    (tmp_path / "mine.c").write_text(source)
    model = import_model(make_build(tmp_path / "recipe.yaml", target="nnie", trusted=True)).model
    written = segment_source(model, "all")
    for name, text in written.files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ToolError, match=reason) as caught:
        run_segment(tmp_path, "all", {"data": np.load(tmp_path / "a.npy")})
    assert "the C of your own layer, which is nnkit_custom_halved.c here" in caught.value.remedy


def test_plan_runs_them_where_it_is_told_to(tmp_path: Path):
    recipe = str(project(tmp_path, "mine: {python: mine.py, c: mine.c, function: halved}"))
    done = CliRunner().invoke(app, ["plan", recipe, "--no-cache"])
    assert isinstance(done.exception, ModelError)
    assert "add --trust to `nnkit run` or `nnkit plan`" in str(done.exception)
    done = CliRunner().invoke(app, ["plan", recipe, "--no-cache", "--trust"])
    assert done.exit_code == 0, done.output
    assert "mine" in done.output


def test_sources_run_where_the_user_trusts_them_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe = project(tmp_path, "mine: {python: mine.py, c: mine.c, function: halved}")
    import_model(make_build(recipe, target="nnie", trusted=True))
    trusted = os.environ["NNKIT_TRUSTED_SOURCES"]
    monkeypatch.delenv("NNKIT_TRUSTED_SOURCES")
    build = make_build(recipe, target="nnie")
    model = import_model(build).model
    with pytest.raises(ModelError, match="of 'halved' is code, and nobody said that it may run"):
        pipeline.run(build, tmp_path / "out")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(UsageError, match="--trust is not for CI"):
        import_model(make_build(recipe, target="nnie", trusted=True))
    image = {"data": np.load(tmp_path / "a.npy")}
    with pytest.raises(ModelError, match="nobody said that it may run") as caught:
        FloatSession(model).run(image)
    digest = caught.value.remedy.partition("NNKIT_TRUSTED_SOURCES=")[2]
    assert digest == hashlib.sha256(PYTHON.encode()).hexdigest()
    assert digest in trusted
    monkeypatch.setenv("NNKIT_TRUSTED_SOURCES", digest)
    assert FloatSession(model).run(image)["conv2"].shape == (1, 2, 6, 5)
    with pytest.raises(ModelError, match="the C of 'halved' is code, and nobody said that it may run"):
        segment_source(model, "segment")
