"""Makes the material of the tutorial: pictures of shapes, and a small network that tells them apart.

    python docs/tutorial/make_network.py FOLDER

The convolutions keep their random weights; only the last layer is fitted, by least squares on what they give. That
is a poor way to train and a quick one, and the ONNX file has all that an exported network has: batch normalisation,
a normalised input, a fully connected layer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw

SIDE = 48
CHANNELS = (8, 16, 32)
SHAPES = ("disc", "square", "cross")
NORM = ("scale", "shift", "mean_of", "variance")


def picture(rng: np.random.Generator, shape: str) -> Image.Image:
    """A gray shape of random size, place and contrast on noise."""
    dark, light = int(rng.integers(0, 80)), int(rng.integers(150, 256))
    image = Image.new("L", (SIDE, SIDE), dark)
    draw = ImageDraw.Draw(image)
    radius = int(rng.integers(8, 16))
    x, y = (int(v) for v in rng.integers(radius, SIDE - radius, 2))
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "disc":
        draw.ellipse(box, fill=light)
    elif shape == "square":
        draw.rectangle(box, fill=light)
    else:
        draw.rectangle((x - radius, y - 3, x + radius, y + 3), fill=light)
        draw.rectangle((x - 3, y - radius, x + 3, y + radius), fill=light)
    noisy = np.asarray(image) + rng.normal(0, 8, (SIDE, SIDE))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def network(rng: np.random.Generator, last_weight: NDArray[Any], last_bias: NDArray[Any]) -> onnx.ModelProto:
    """Normalisation, three blocks of convolution, batch normalisation, Relu and pooling, and a last layer."""
    constants: dict[str, NDArray[Any]] = {"mean": np.array(127.5), "range": np.array(127.5)}
    nodes = [
        helper.make_node("Sub", ["image", "mean"], ["centred"], name="centre"),
        helper.make_node("Div", ["centred", "range"], ["v0"], name="normalise"),
    ]
    given = 1
    for index, channels in enumerate(CHANNELS):
        n = str(index + 1)
        constants[f"w{n}"] = rng.normal(0, np.sqrt(2 / (9 * given)), (channels, given, 3, 3))
        norm = (np.ones(channels), rng.normal(0, 0.1, channels), rng.normal(0, 0.1, channels), np.ones(channels))
        constants |= {f"{key}{n}": value for key, value in zip(NORM, norm, strict=True)}
        last = index == len(CHANNELS) - 1
        pool: dict[str, Any] = {} if last else {"kernel_shape": [2, 2], "strides": [2, 2]}
        nodes += [
            helper.make_node("Conv", [f"v{index}", f"w{n}"], [f"c{n}"], name=f"conv{n}", pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"c{n}", *(key + n for key in NORM)], [f"n{n}"], name=f"norm{n}"),
            helper.make_node("Relu", [f"n{n}"], [f"r{n}"], name=f"relu{n}"),
            helper.make_node(
                "GlobalAveragePool" if last else "MaxPool", [f"r{n}"], [f"v{n}"], name=f"pool{n}", **pool
            ),
        ]
        given = channels
    constants |= {"wl": last_weight, "bl": last_bias}
    nodes += [
        helper.make_node("Flatten", [f"v{len(CHANNELS)}"], ["features"], name="flatten"),
        helper.make_node("Gemm", ["features", "wl", "bl"], ["scores"], name="classify", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "shapes",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, len(last_bias)])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def with_argmax(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network, that gives the number of the shape instead of the scores."""
    longer = onnx.ModelProto.FromString(model.SerializeToString())
    longer.graph.node.append(helper.make_node("ArgMax", ["scores"], ["number"], name="kind", axis=1))
    longer.graph.output[0].CopyFrom(helper.make_tensor_value_info("number", TensorProto.INT64, [1, 1]))
    onnx.checker.check_model(longer)
    return longer


def scores(model: onnx.ModelProto, images: list[NDArray[Any]]) -> NDArray[Any]:
    """[N, outputs] float32."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"image": i[None, None].astype(np.float32)})[0] for i in images])


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for part, count in (("train", 600), ("calibration", 30), ("held_out", 60)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            shape = SHAPES[index % len(SHAPES)]
            picture(rng, shape).save(folder / part / f"{shape}_{index}.png")

    def load(part: str) -> tuple[list[NDArray[Any]], NDArray[Any]]:
        paths = sorted((folder / part).glob("*.png"))
        labels = [SHAPES.index(path.name.partition("_")[0]) for path in paths]
        return [np.asarray(Image.open(path)) for path in paths], np.array(labels)

    images, labels = load("train")
    width = CHANNELS[-1]
    features = scores(network(np.random.default_rng(1), np.eye(width), np.zeros(width)), images)
    known = np.hstack([features, np.ones((len(features), 1))])
    fitted = np.linalg.lstsq(known, np.eye(len(SHAPES))[labels], rcond=None)[0]
    model = network(np.random.default_rng(1), fitted[:-1].T, fitted[-1])
    onnx.save(model, folder / "shapes.onnx")
    onnx.save(with_argmax(model), folder / "kind.onnx")
    images, labels = load("held_out")
    right = float(np.mean(scores(model, images).argmax(axis=1) == labels))
    sys.stdout.write(f"{folder / 'shapes.onnx'}: {right:.0%} of the held-out pictures are told right\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
