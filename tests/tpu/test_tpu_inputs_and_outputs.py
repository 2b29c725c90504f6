"""What a compiled model takes and gives beside float32: pixels with fused preprocessing, stored integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import UsageError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.preprocess import Preprocess
from nnkit.preprocess.load import preprocess_image
from nnkit.preprocess.settings import Resize
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import Compiled, CompileOptions, compile_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.toolchain import Toolchain
from nnkit_tpu.top_mlir import PixelInput

CHIP, SIDE = "bm1684x", 16
MEAN, SCALE = (123.0, 116.5, 103.25), (1 / 58, 1 / 57, 1 / 59)


def _network(channels: int) -> Model:
    """Conv, Relu, Conv on an image: what a wrong order of channels or a wrong mean would change."""
    random = np.random.default_rng(1)
    constants = [
        numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in (("w", (8, channels, 3, 3)), ("b", (8,)), ("v", (4, 8, 3, 3)))
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["c"], name="c", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="r"),
        helper.make_node("Conv", ["r", "v"], ["y"], name="y", strides=[2, 2]),
    ]
    shape = (1, channels, SIDE, SIDE)
    graph = helper.make_graph(
        nodes,
        "pixels",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 7, 7))],
        constants,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(made)
    inputs, outputs = (InputSpec("image", shape),), (OutputSpec("y", (1, 4, 7, 7)),)
    return Model(proto.SerializeToString(), LayerTags(), inputs, outputs, 17)


def _by_onnx_runtime(model: Model, image: np.ndarray) -> dict[str, np.ndarray]:
    proto = model.proto()
    proto.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("c", "r"))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return {"image": image, **dict(zip(names, session.run(names, {"image": image}), strict=True))}


def _compiled(
    toolchain: Toolchain, model: Model, values: dict[str, np.ndarray], folder: Path, chip: str = CHIP, **options: Any
) -> Compiled:
    ranges = {
        n: ValueRange(float(v.min()), float(v.max()), float(v.min()), float(v.max())) for n, v in values.items()
    }
    return compile_graph(toolchain, lower(model, "pixels"), CompileOptions(chip, **options), folder, ranges=ranges)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def _picture() -> Image.Image:
    """Colours that differ from channel to channel, larger than the network's input."""
    random = np.random.default_rng(2)
    pixels = random.integers(0, 256, (SIDE * 2, SIDE * 3, 3)) // np.array([1, 2, 4])
    return Image.fromarray(pixels.astype(np.uint8), "RGB")


@pytest.mark.parametrize(
    ("chip", "mode", "color", "swapped", "packed"),
    [
        (CHIP, "F16", "rgb", False, False),
        (CHIP, "F16", "bgr", True, True),  # a network for BGR fed with RGB, row by row as decoders give it
        (CHIP, "F16", "gray", False, False),
        (CHIP, "INT8", "rgb", True, False),
        (CHIP, "INT8", "bgr", False, True),
        (CHIP, "INT8", "gray", False, False),
        ("cv181x", "INT8", "bgr", True, True),
    ],
)
def test_pixels_give_what_our_preprocessing_gives(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: str, color: str, swapped: bool, packed: bool
) -> None:
    channels = 1 if color == "gray" else 3
    mean, scale = MEAN[:channels], SCALE[:channels]
    model = _network(channels)
    settings = Preprocess(color=color, resize=Resize(SIDE, SIDE, "bilinear"), mean=mean, scale=scale)  # type: ignore[arg-type]
    values = _by_onnx_runtime(model, preprocess_image(_picture(), settings, (1, channels, SIDE, SIDE)))

    picture = _picture().convert("L") if color == "gray" else _picture()
    resized = np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR)).reshape(1, SIDE, SIDE, channels)
    given_order = {"rgb": "bgr", "bgr": "rgb"}[color] if swapped else color
    pixels = resized[..., ::-1] if given_order == "bgr" else resized
    pixels = pixels if packed else np.moveaxis(pixels, 3, 1)

    taken = PixelInput(color, mean, scale, swapped, packed)  # type: ignore[arg-type]
    compiled = _compiled(
        tpu_toolchain, model, values, tmp_path, chip=chip, mode=mode, fuse_preprocess={"image": taken}
    )
    given = {compiled.locations["image"]: np.ascontiguousarray(pixels)}
    (found,) = run_on_chip_model(tpu_toolchain, compiled.model, chip, given).values()
    final = (compiled.model.parent / "final.mlir").read_text()
    assert "ui8" in next(line for line in final.splitlines() if "func.func @main" in line)
    assert _cosine(found, values["y"]) >= (0.99999 if mode == "F16" else 0.999)


def test_pixels_of_two_kinds_are_refused(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    kinds = {"image": PixelInput("rgb", MEAN, SCALE), "other": PixelInput("gray", (0.0,), (1.0,))}
    model = _network(3)
    with pytest.raises(UsageError, match="GRAYSCALE, RGB_PLANAR"):
        compile_graph(
            tpu_toolchain, lower(model, "pixels"), CompileOptions(CHIP, "F16", fuse_preprocess=kinds), tmp_path
        )


def test_stored_integers_in_and_out(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """The integers are real values by thresholds of the table over 127; the model computes the same either way."""
    model = _network(3)
    image = np.random.default_rng(4).normal(0, 1, (1, 3, SIDE, SIDE)).astype(np.float32)
    values = _by_onnx_runtime(model, image)
    steps = {name: float(np.abs(values[name]).max()) / 127 for name in ("image", "y")}
    stored = np.clip(np.rint(image / steps["image"]), -128, 127).astype(np.int8)
    outputs = {}
    for name, options in (("float", {}), ("integers", {"quant_input": True, "quant_output": True})):
        folder = tmp_path / name
        folder.mkdir()
        compiled = _compiled(tpu_toolchain, model, values, folder, **options)
        given = stored if options else stored * np.float32(steps["image"])
        (outputs[name],) = run_on_chip_model(
            tpu_toolchain, compiled.model, CHIP, {compiled.locations["image"]: given}
        ).values()
    assert outputs["integers"].dtype == np.int8
    assert outputs["float"].dtype == np.float32
    np.testing.assert_allclose(outputs["integers"] * steps["y"], outputs["float"], rtol=1e-5, atol=1e-6)
    assert _cosine(outputs["integers"], values["y"]) >= 0.999
