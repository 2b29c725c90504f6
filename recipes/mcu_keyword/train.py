"""Makes the network of this recipe, `keyword.onnx`, and the spectrograms that it calibrates and verifies on.

    python train.py

Layer after layer, without gradients: the filters of the first convolution are principal components of patches and
their opposites, depthwise ones are seeded, those of one pixel are principal components of what reaches them; the last
layer is a ridge regression on the classes. All is seeded, and takes seconds with numpy alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from draw_words import BANDS, CLASSES, FRAMES, draw
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

HERE = Path(__file__).parent
SEED, TRAINING, CALIBRATION, HELD_OUT = 7, 2400, 28, 70
MEAN, DEVIATION = 60.0, 60.0
FILTERS, WIDTH, RIDGE = 16, 32, 30.0
Arrays = dict[str, NDArray[np.float32]]


def pictures(first: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """[count, 1, BANDS, FRAMES] and the classes, in turn."""
    kinds = np.arange(count) % len(CLASSES)
    drawn = [draw(int(kind), np.random.default_rng(first + index)) for index, kind in enumerate(kinds)]
    return np.stack(drawn)[:, None].astype(np.float32), kinds


def patches(maps: NDArray[np.float32], side: int, step: int) -> NDArray[np.float32]:
    """[N, C, H, W] to [N, H', W', C * side * side]."""
    views = np.lib.stride_tricks.sliding_window_view(maps, (side, side), axis=(2, 3))[:, :, ::step, ::step]
    return views.transpose(0, 2, 3, 1, 4, 5).reshape(*views.shape[:1], *views.shape[2:4], -1)


def components(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """[count, columns]: principal components of unit deviation and, as the second half, their opposites."""
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
    chosen = (vectors[:, ::-1] / np.sqrt(values[::-1] + 1e-3)).T[: count // 2]
    return np.concatenate((chosen, -chosen)).astype(np.float32)


def relu(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.maximum(values, 0)


def fitted(x: NDArray[np.float32], kinds: NDArray[np.int64]) -> Arrays:
    """Weights and biases by name, for pixels 0 to 255."""
    rng = np.random.default_rng(SEED)
    maps = (x - MEAN) / DEVIATION
    rows = patches(maps, 5, 2)
    few = rows.reshape(-1, rows.shape[-1])[rng.permutation(rows[..., 0].size)[:50_000]]
    first = components(few, FILTERS)
    bias = -(few @ first.T).mean(axis=0) - 0.2
    maps = relu(rows @ first.T + bias).transpose(0, 3, 1, 2)
    # The mean and the deviation of pixels go into the first layer, which reads no padding.
    weights: Arrays = {
        "w1": (first / DEVIATION).reshape(FILTERS, 1, 5, 5),
        "b1": bias - (first / DEVIATION).sum(axis=1) * MEAN,
    }
    depthwise = rng.normal(size=(FILTERS, 3, 3)).astype(np.float32) / 3
    padded = np.pad(maps, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    maps = relu(np.einsum("nchwij,cij->nchw", views, depthwise, optimize=True))
    weights |= {"w2": depthwise.reshape(FILTERS, 1, 3, 3), "b2": np.zeros(FILTERS, np.float32)}
    rows = maps.transpose(0, 2, 3, 1)
    few = rows.reshape(-1, FILTERS)[rng.permutation(rows[..., 0].size)[:50_000]]
    mixed = np.concatenate((components(few, FILTERS), rng.normal(size=(WIDTH - FILTERS, FILTERS)) / 2))
    bias = -(few @ mixed.T).mean(axis=0)
    maps = relu(rows @ mixed.T + bias).transpose(0, 3, 1, 2)
    weights |= {"w3": mixed.reshape(WIDTH, FILTERS, 1, 1), "b3": bias}
    pooled = maps.reshape(len(maps), WIDTH, 7, 2, 6, 3).mean(axis=(3, 5)).reshape(len(maps), -1)
    deviation = pooled.std(axis=0) + 1e-3
    scaled = (pooled - pooled.mean(axis=0)) / deviation
    wanted = 4.0 * (np.eye(len(CLASSES))[kinds] - 1 / len(CLASSES))
    solved = np.linalg.solve(scaled.T @ scaled + RIDGE * np.eye(scaled.shape[1]), scaled.T @ wanted).T / deviation
    weights |= {"w4": solved, "b4": wanted.mean(axis=0) - solved @ pooled.mean(axis=0)}
    return {name: np.ascontiguousarray(values, np.float32) for name, values in weights.items()}


def network(weights: Arrays) -> onnx.ModelProto:
    """[1, 1, BANDS, FRAMES] of pixels to `scores` [1, classes], which sum up to 1."""
    nodes = [
        helper.make_node("Conv", ["spectrogram", "w1", "b1"], ["c1"], name="first", strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="depthwise", group=FILTERS, pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"], name="mix"),
        helper.make_node("Relu", ["c3"], ["r3"]),
        helper.make_node("AveragePool", ["r3"], ["p"], name="pool", kernel_shape=[2, 3], strides=[2, 3]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["logits"], name="classes", transB=1),
        helper.make_node("Softmax", ["logits"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "keyword",
        [helper.make_tensor_value_info("spectrogram", TensorProto.FLOAT, (1, 1, BANDS, FRAMES))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, (1, len(CLASSES)))],
        [numpy_helper.from_array(values, name) for name, values in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def main() -> None:
    weights = fitted(*pictures(0, TRAINING))
    onnx.save(network(weights), HERE / "keyword.onnx")
    labels = []
    for folder, first, count in (("calibration", 1_000_000, CALIBRATION), ("held_out", 2_000_000, HELD_OUT)):
        (HERE / folder).mkdir(exist_ok=True)
        maps, kinds = pictures(first, count)
        for index, (picture, kind) in enumerate(zip(maps[:, 0], kinds, strict=True)):
            Image.fromarray(picture.astype(np.uint8)).save(HERE / folder / f"{index:02}.png", optimize=True)
            if folder == "held_out":
                labels.append(f"{index:02}.png,{kind}\n")
    (HERE / "labels.csv").write_text("".join(labels), encoding="utf-8")


if __name__ == "__main__":
    main()
