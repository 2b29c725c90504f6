"""`fuse_preprocess` through a recipe: models that take pixels, compared layer by layer on the vendor's chip model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from typer.testing import CliRunner

from nnkit.calibrate.stats import ValueRange
from nnkit.cli import app
from nnkit.errors import RecipeError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.preprocess import Preprocess
from nnkit.program import Affine, Pixels
from nnkit.serialize import decode
from nnkit.target import load_target
from nnkit.verify.artifact import compare_artifact
from nnkit_tpu.arithmetic import pixel_tables
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.options import PixelOptions, TpuOptions
from nnkit_tpu.pixels import pixel_inputs
from nnkit_tpu.quantize import PROGRAM_CLASSES
from nnkit_tpu.toolchain import Toolchain
from nnkit_tpu.top_mlir import PixelInput

SIDE = 12
MEAN, SCALE = (123.0, 116.5, 103.25), (1 / 58, 1 / 57, 1 / 59)


def _network(channels: int, *, shared: bool = False) -> onnx.ModelProto:
    """Two convolutions of an image. shared: the image is added to the first one's result, too."""
    random = np.random.default_rng(1)
    width = channels if shared else 8
    shapes = {"w": (width, channels, 3, 3), "b": (width,), "v": (4, width, 3, 3)}
    weights = [numpy_helper.from_array(random.normal(0, 0.3, s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["first"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["first"], ["relu"], name="relu"),
        *([helper.make_node("Add", ["relu", "image"], ["sum"], name="sum")] if shared else []),
        helper.make_node("Conv", ["sum" if shared else "relu", "v"], ["scores"], name="scores", strides=[2, 2]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, channels, SIDE, SIDE))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, 4, 5, 5))],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _pictures(folder: Path) -> None:
    """Larger than the input, with colours that differ from channel to channel."""
    folder.mkdir()
    random = np.random.default_rng(2)
    for index in range(4):
        pixels = random.integers(0, 256, (SIDE * 2, SIDE * 3, 3)) // np.array([1, 2, 4])
        Image.fromarray(pixels.astype(np.uint8), "RGB").save(folder / f"{index}.png")


def _recipe(folder: Path, color: str, options: str, *, shared: bool = False) -> Path:
    channels = 1 if color == "gray" else 3
    onnx.save(_network(channels, shared=shared), folder / "net.onnx")
    _pictures(folder / "images")
    mean, scale = list(MEAN[:channels]), list(SCALE[:channels])
    text = f"""nnkit: 1
name: small
model:
  path: net.onnx
  simplify: false
  inputs:
    image:
      preprocess: {{color: {color}, resize: {{size: [{SIDE}, {SIDE}]}}, mean: {mean}, scale: {scale}}}
      calibration: {{images: images/*.png}}
calibration: {{method: max}}
targets:
  tpu: {options}
verify: {{images: images/*.png, gates: {{cosine: 0.99}}}}
"""
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _run(folder: Path, color: str, options: str, *, shared: bool = False) -> Path:
    """The build folder."""
    out = folder / "out"
    recipe = _recipe(folder, color, options, shared=shared)
    done = CliRunner().invoke(app, ["run", str(recipe), "--out", str(out), "--no-cache"])
    assert done.exit_code == 0, done.output
    return out / "small" / "tpu"


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _as_the_interface_says(port: dict[str, Any], picture: Path) -> np.ndarray:
    """The first picture prepared by hand: resized by Pillow, then colours and layout as the interface names them."""
    image = Image.open(picture).convert("L" if port["color"] == "gray" else "RGB")
    height, width = port["on_host"]["resize"]["height"], port["on_host"]["resize"]["width"]
    pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).reshape(1, height, width, -1)
    if port["color"] == "bgr":
        pixels = pixels[..., ::-1]
    if port["layout"] == "planar":
        pixels = np.moveaxis(pixels, 3, 1)
    assert list(pixels.shape) == port["shape"]
    return np.ascontiguousarray(pixels)


@pytest.mark.parametrize(
    ("chip", "color", "more", "shared"),
    [
        ("bm1684x", "rgb", "pixels: {color: bgr, layout: packed}", False),
        ("cv181x", "gray", "quant_output: true", False),
        ("bm1684x", "rgb", "tags: {hp: [first]}", True),  # the image's integers in INT8 and in F16
        ("bm1684x", "bgr", "precision: f16", False),
        ("bm1688", "bgr", "pixels: {layout: packed}", False),
        ("cv181x", "bgr", "pixels: {color: rgb, layout: packed}", True),
        ("cv181x", "rgb", "precision: bf16, pixels: {color: bgr}", False),
    ],
)
def test_a_model_of_pixels_computes_what_was_predicted(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, color: str, more: str, shared: bool
) -> None:
    build = _run(tmp_path, color, f"{{chip: {chip}, fuse_preprocess: true, {more}}}", shared=shared)
    report = _json(build / "report.json")
    (verdict,) = (each for each in report["verify"]["program_vs_artifact"] if each["how"] == "chip_model")
    assert verdict["mismatches"] == 0
    assert verdict["values"] > 500
    if "precision" not in more:
        assert report["details"]["prediction"]["disagreements"] == []
        assert report["verify"]["float_vs_program"]["cosine"] >= 0.999
    if "precision" not in more and "hp" not in more:
        assert verdict["max_difference"] == 0

    interface = _json(build / "artifact" / "interface.json")
    (port,), (output,) = interface["inputs"], interface["outputs"]
    assert (port["type"], port["c_type"]) == ("uint8", "uint8_t")
    given = {port["name"]: _as_the_interface_says(port, tmp_path / "images" / "0.png")}
    found = run_on_chip_model(tpu_toolchain, build / "artifact" / interface["model"], chip, given)
    program = getattr(decoded := decode((build / "program.nnkit").read_bytes(), PROGRAM_CLASSES), "program", decoded)
    stored = np.load(build / "verify" / "0_scores.npy")
    if "quant_output" in more:
        np.testing.assert_array_equal(found[output["name"]].reshape(stored.shape), stored)
    else:
        expected = program.tensors["scores"].format.dequantize(stored)
        error = np.abs(found[output["name"]].reshape(stored.shape) - expected).max()
        assert error <= np.abs(expected).max() * 2.0**-7  # on the cv18xx scales have 8 bits


def test_another_mean_is_noticed(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    build = _run(tmp_path, "rgb", "{chip: cv181x, fuse_preprocess: true}")
    program = decode((build / "program.nnkit").read_bytes(), PROGRAM_CLASSES)
    pixels = program.tensors["image"].format
    other = replace(pixels, mean=(pixels.mean[0], pixels.mean[1] + 1.5, pixels.mean[2]))
    first = program.ops[0]
    cast = replace(first.casts[0], source=other)
    wrong = replace(program, ops=(replace(first, casts=(cast,)), *program.ops[1:]))
    runner = load_target("tpu").runners(TpuOptions(chip="cv181x", fuse_preprocess=True))[0]
    inputs = [{"image": np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE))}]
    assert compare_artifact(runner, build / "artifact", wrong, inputs).mismatches > 0


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_halves_of_a_unit_are_rounded_as_the_compiler_does(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    """A unit of two pixels and odd means: half of all pixels lie in the middle between two integers."""
    shape = (1, 3, SIDE, SIDE)
    proto = onnx.shape_inference.infer_shapes(_network(3))
    inputs, outputs = (InputSpec("image", shape),), (OutputSpec("scores", (1, 4, 5, 5)),)
    graph = lower(Model(proto.SerializeToString(), LayerTags(), inputs, outputs, 17), "pixels")
    mean, scale = (3.0, 5.0, 7.0), (1.0, 0.5, 0.25)
    ranges = dict.fromkeys(graph.tensors, ValueRange(-254.0, 254.0, -254.0, 254.0))
    options = CompileOptions(chip, fuse_preprocess={"image": PixelInput("rgb", mean, scale)})
    lowered = lower_graph(tpu_toolchain, graph, options, tmp_path, ranges=ranges)
    with np.load(lowered.weights) as weights:
        (name,) = (key for key in weights.files if key.endswith("_preprocess_table"))
        theirs = weights[name].reshape(3, 256)
    np.testing.assert_array_equal(pixel_tables(Pixels(mean, scale), Affine(8, (2.0,), (0,), signed=True)), theirs)


GRAY, RGB, BGR = (Preprocess(color=color) for color in ("gray", "rgb", "bgr"))  # type: ignore[arg-type]


def test_inputs_that_cannot_be_fused_are_refused() -> None:
    options = TpuOptions(chip="bm1684x", fuse_preprocess=True)
    with pytest.raises(RecipeError, match="input 'state' is not made from images"):
        pixel_inputs(["image", "state"], {"image": RGB}, options)
    with pytest.raises(RecipeError, match=r"different kinds \(a: RGB_PLANAR, b: BGR_PLANAR\)"):
        pixel_inputs(["a", "b"], {"a": RGB, "b": BGR}, options)
    with pytest.raises(RecipeError, match="different kinds"):
        pixel_inputs(["a", "b"], {"a": RGB, "b": GRAY}, options)


def test_one_kind_of_pixels_serves_networks_of_both_orders() -> None:
    options = TpuOptions(chip="bm1684x", fuse_preprocess=True, pixels=PixelOptions(color="rgb", layout="packed"))
    found = pixel_inputs(["a", "b"], {"a": RGB, "b": BGR}, options)
    assert {name: (each.swapped, each.pixel_format) for name, each in found.items()} == {
        "a": (False, "RGB_PACKED"),
        "b": (True, "RGB_PACKED"),
    }
    assert found["a"].mean == (0.0, 0.0, 0.0)  # one value stands for all channels


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="stored integers already"):
        TpuOptions(chip="bm1684x", fuse_preprocess=True, quant_input=True)
    with pytest.raises(ValueError, match="models with fuse_preprocess"):
        TpuOptions(chip="bm1684x", pixels=PixelOptions(layout="packed"))
