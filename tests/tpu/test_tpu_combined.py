"""Several networks in one bmodel: made by the vendor's tool, run by its runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build

from nnkit import pipeline
from nnkit.errors import RecipeError
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.combined import networks_of
from nnkit_tpu.toolchain import Toolchain


def recipe(folder: Path, name: str, channels: int, options: str) -> Path:
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(channels)
    weight = numpy_helper.from_array(random.normal(0, 0.3, (channels, 3, 3, 3)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 10, 10))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / f"{name}.onnx")
    np.save(folder / "x.npy", random.normal(0, 1, (1, 3, 10, 10)).astype(np.float32))
    path = folder / f"{name}.yaml"
    path.write_text(
        f"nnkit: 1\nname: {name}\nmodel:\n  path: {name}.onnx\n"
        "  inputs: {x: {calibration: {images: x.npy}}}\ncalibration: {method: max}\n"
        f"targets:\n  tpu: {{layer_group: quick, {options}}}\n",
        encoding="utf-8",
    )
    return path


def run(path: Path) -> None:
    outcome = pipeline.run(make_build(path, target="tpu"), path.parent / "out")
    assert outcome.status in ("ok", "unproven")


def test_every_network_of_a_combined_model_computes_what_it_does_alone(
    tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    run(recipe(tmp_path, "first", 4, "chip: bm1684x"))
    run(recipe(tmp_path, "second", 7, "chip: bm1684x, combine: [out/first/tpu/artifact/net.bmodel]"))
    artifact = tmp_path / "out" / "second" / "tpu" / "artifact"
    assert networks_of(tpu_toolchain, artifact / "combined.bmodel") == ("bm1684x", ("second", "first"))
    told = json.loads((artifact / "interface.json").read_text(encoding="utf-8"))["combined"]
    assert told["networks"] == ["second", "first"]
    assert told["compared"]
    assert told["bytes"] == (artifact / "combined.bmodel").stat().st_size < 0.6 * told["bytes_one_by_one"]
    x = {"x": np.load(tmp_path / "x.npy")}
    alone = run_on_chip_model(tpu_toolchain, artifact / "net.bmodel", "bm1684x", x)
    together = run_on_chip_model(tpu_toolchain, artifact / "combined.bmodel", "bm1684x", x)
    assert list(alone) == list(together)
    assert all(np.array_equal(alone[name], together[name]) for name in alone)


@pytest.mark.parametrize(
    ("name", "chip", "reason"),
    [
        ("other", "bm1688", "net.bmodel is for the bm1684x, this build for the bm1688"),
        ("first", "bm1684x", "has a network 'first' too"),
    ],
)
def test_models_that_cannot_be_one_are_told(
    tpu_toolchain: Toolchain, tmp_path: Path, name: str, chip: str, reason: str
) -> None:
    run(recipe(tmp_path / "one", "first", 4, "chip: bm1684x"))
    options = f"chip: {chip}, combine: [../one/out/first/tpu/artifact/net.bmodel]"
    with pytest.raises(RecipeError, match=reason):
        pipeline.run(make_build(recipe(tmp_path / "two", name, 5, options), target="tpu"), tmp_path / "out")


def test_a_model_that_is_not_there_and_a_chip_without_such_models(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cvimodels hold one network"):
        make_build(recipe(tmp_path, "first", 4, "chip: cv181x, combine: [a]"), target="tpu")
    path = recipe(tmp_path, "first", 4, "chip: bm1688, combine: [nowhere.bmodel]")
    with pytest.raises(RecipeError, match="does not exist"):
        run(path)
