"""Build folders: one file of a small build damaged, and then the commands that take a build."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from fuzz.damage import damaged_bytes, damaged_json, damaged_text, damaged_value

if TYPE_CHECKING:
    from nnkit.builds import BuiltFolder
    from nnkit.cache import StageCache
    from nnkit.stages import Build

RECIPE = """\
nnkit: 1
name: small
model:
  path: net.onnx
  inputs: {x: {preprocess: {color: gray}, calibration: {images: "*.npy"}}}
targets: {onnx_qdq: {}}
verify: {gates: {cosine: 0.5}}
release:
  version: ${VERSION:-1.0.0}
"""
_FILES = ("report.json", "program.nnkit", "float.onnx", "restructured.onnx", "recipe.yaml", "calibration.yaml")
_FILES += ("plan.json", "layers.csv", "verify/0_x_float.npy", "artifact/model.onnx")
Seeds = Path


def seeds(folder: Path) -> Seeds:
    """A build of a network of a convolution and a dense layer."""
    from nnkit import pipeline

    write_project(folder)
    return pipeline.run(small_build(folder), folder / "out").folder


def write_project(folder: Path) -> None:
    """The network, two inputs and a recipe."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0).standard_normal
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "v"], ["y"], name="dense"),
    ]
    weights = {"w": draw((4, 1, 3, 3)), "v": draw((4, 3))}
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(nodes, "small", [given], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    for index in range(2):
        np.save(folder / f"{index}.npy", draw((1, 1, 8, 8)).astype(np.float32))
    (folder / "recipe.yaml").write_text(RECIPE, encoding="utf-8")


def small_build(
    folder: Path, cache: StageCache | None = None, version: str = "1.0.0", target: str = "onnx_qdq"
) -> Build:
    """What builds the project of that folder. version: of the release."""
    from nnkit.cache import StageCache
    from nnkit.recipe import load_recipe
    from nnkit.report.progress import Progress
    from nnkit.stages import Build
    from nnkit.target import load_target, option_models

    environment = {"VERSION": version}
    recipe = load_recipe(folder / "recipe.yaml", target_models=option_models(), environ=environment)
    plugin = load_target(target)
    progress = Progress(stream=io.StringIO())
    options = recipe.targets[target]
    return Build(recipe, target, plugin, options, cache or StageCache.disabled(), progress, False)


def built(folder: Path, network: bytes, recipe: str, target: str) -> BuiltFolder:
    """A build of a network with one input `x`, on two random inputs; of whole numbers, those of nine words.

    Raises what a run raises.
    """
    from onnx import ModelProto, TensorProto

    from nnkit import pipeline
    from nnkit.builds import open_build

    given = ModelProto.FromString(network).graph.input[0].type.tensor_type
    shape = [side.dim_value for side in given.shape.dim]
    (folder / "net.onnx").write_bytes(network)
    for index in range(2):
        draw = np.random.default_rng(index)
        words = given.elem_type == TensorProto.INT64
        values = draw.integers(0, 9, shape) if words else draw.standard_normal(shape).astype(np.float32)
        np.save(folder / f"{index}.npy", values)
    recipe = recipe.replace("verify: {gates: {cosine: 0.5}}\n", "").replace("preprocess: {color: gray}, ", "")
    (folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    return open_build(pipeline.run(small_build(folder, target=target), folder / "out").folder)


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged build through one of the commands."""
    from nnkit.commands.compare import compare_command
    from nnkit.commands.diagnose import diagnose_command
    from nnkit.commands.simulate import simulate_command
    from nnkit.commands.table import convert_command
    from nnkit.package import build_package

    build = folder / "build"
    shutil.copytree(given, build)
    path = build / chance.choice(_FILES)
    data = path.read_bytes()
    if chance.random() < 0.05:
        path.unlink()
    elif path.name == "program.nnkit" and chance.random() < 0.7:
        path.write_bytes(damaged_value(data, chance))
    elif path.suffix == ".json" and chance.random() < 0.6:
        path.write_bytes(damaged_json(data.decode(), chance))
    elif path.suffix in (".json", ".yaml", ".csv"):
        path.write_bytes(damaged_text(data.decode(), chance))
    else:
        path.write_bytes(damaged_bytes(data, chance))
    if chance.random() < 0.7:
        _sign(build, path)
    command = chance.choice(("simulate", "compare", "diagnose", "package", "table", "pin"))
    if command == "simulate":
        on = chance.choice(("float", "program", "onnxruntime"))
        image = given / "verify/0_x_float.npy"
        simulate_command(build, [str(image)], folder / "y.npy", on=on, raw=False, tensor=None, json=True)
    elif command == "compare":
        compare_command(*chance.sample((build, given), 2), json=chance.random() < 0.5)
    elif command == "diagnose":
        diagnose_command(build, images=[], calibration=[], count=1, json=chance.random() < 0.5)
    elif command == "package":
        build_package(build, folder / "x.nnpkg")
    elif command == "table":
        convert_command(build, folder / "out", to="nnkit", onto=chance.choice((None, build, given)), json=True)
    else:
        convert_command(build, folder / "out", to="pinned", onto=None, json=True)


def _sign(build: Path, path: Path) -> None:
    """The report says of the changed file what it would say had the run written it."""
    report = build / "report.json"
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
        record = content["stages"][path.name]
        record["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError, KeyError, TypeError):
        return
    report.write_text(json.dumps(content), encoding="utf-8")
