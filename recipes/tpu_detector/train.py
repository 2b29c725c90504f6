"""Trains the small face detector of this recipe on drawn scenes and writes it as `detector.onnx`. Needs `[train]`.

    python train.py

Scenes are drawn faces of several sizes on drawn backgrounds, [1, 160, 160] pixels 0..255. The network has one cell
for every 8 x 8 pixels: a score (sigmoid: is the centre of a face in this cell?), and the box around it as distances
from the cell's centre to left, top, right and bottom in cells, which are positive. It also writes the images that the
recipe calibrates and verifies on, and `boxes.csv`. All is seeded.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "gap8_reid"))

from draw_faces import draw, identity, picture_rng  # noqa: E402

SIZE, CELL = 160, 8
GRID = SIZE // CELL
FIRST_PERSON = 4_000_000
PIXEL_MEAN, PIXEL_DEVIATION = 117.0, 58.0
Boxes = list[tuple[float, float, float, float]]


class Detector(nn.Module):
    """[N, 1, 160, 160] to score [N, 1, 20, 20] (before the sigmoid) and box [N, 4, 20, 20] (before the Relu)."""

    def __init__(self) -> None:
        super().__init__()
        widths = ((1, 12, 2), (12, 24, 2), (24, 32, 2), (32, 32, 1), (32, 32, 1))
        self.convs = nn.ModuleList([nn.Conv2d(a, b, 3, s, 1, bias=False) for a, b, s in widths])
        self.norms = nn.ModuleList([nn.BatchNorm2d(b) for _, b, _ in widths])
        self.score, self.box = nn.Conv2d(32, 1, 1), nn.Conv2d(32, 4, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = (image - PIXEL_MEAN) / PIXEL_DEVIATION
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = functional.relu(norm(conv(x)))
            x = x + y if number >= 3 else y
        return self.score(x), self.box(x)


def scene(rng: np.random.Generator, faces: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], Boxes]:
    """A picture and its boxes (x_min, y_min, x_max, y_max in pixels)."""
    coarse = rng.uniform(20, 230, (rng.integers(2, 9), rng.integers(2, 9))).astype(np.float32)
    ground = Image.fromarray(coarse).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    picture = np.clip(np.asarray(ground) + rng.normal(0, 6, (SIZE, SIZE)), 0, 255)
    boxes: Boxes = []
    for _ in range(rng.integers(0, 4)):
        side = int(rng.integers(36, 84))
        left, top = (int(rng.integers(0, SIZE - side)) for _ in range(2))
        if any(left < b[2] and top < b[3] and left + side > b[0] and top + side > b[1] for b in boxes):
            continue
        face = Image.fromarray(faces[rng.integers(len(faces))]).resize((side, side), Image.Resampling.BILINEAR)
        picture[top : top + side, left : left + side] = np.asarray(face)
        boxes.append((left, top, left + side, top + side))
    return picture.astype(np.uint8), boxes


def targets(boxes: Boxes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """score [1, 20, 20] and box [4, 20, 20] in cells."""
    score, box = np.zeros((1, GRID, GRID), np.float32), np.zeros((4, GRID, GRID), np.float32)
    for x0, y0, x1, y1 in boxes:
        column, row = int((x0 + x1) / 2 // CELL), int((y0 + y1) / 2 // CELL)
        x, y = (column + 0.5) * CELL, (row + 0.5) * CELL
        score[0, row, column] = 1.0
        box[:, row, column] = np.array([x - x0, y - y0, x1 - x, y1 - y]) / CELL
    return score, box


def train(faces: npt.NDArray[np.uint8], steps: int) -> Detector:
    torch.manual_seed(1)
    network = Detector()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps)
    for step in range(steps):
        rng = np.random.default_rng([3, step])
        drawn = [scene(rng, faces) for _ in range(12)]
        image = torch.from_numpy(np.stack([picture[None] for picture, _ in drawn]).astype(np.float32))
        wanted = [targets(boxes) for _, boxes in drawn]
        score = torch.from_numpy(np.stack([s for s, _ in wanted]))
        box = torch.from_numpy(np.stack([b for _, b in wanted]))
        found, edges = network(image)
        weight = 1.0 + 30.0 * score
        loss = (functional.binary_cross_entropy_with_logits(found, score, reduction="none") * weight).mean()
        loss = loss + 0.5 * ((functional.relu(edges) - box).abs() * score).sum() / score.sum().clamp(min=1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}/{steps}: loss {loss.item():.3f}", flush=True)
    return network.eval()


def to_onnx(network: Detector) -> onnx.ModelProto:
    """Input `image` [1, 1, 160, 160], outputs `score` [1, 1, 20, 20] and `box` [1, 4, 20, 20]; nothing folded."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    state = {name: value.detach().numpy() for name, value in network.state_dict().items()}

    def constant(name: str, value: npt.NDArray[np.float32]) -> str:
        weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(op: str, name: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(name: str, source: str, kernel: int, stride: int) -> str:
        given = [
            constant(f"{name}.{kind}", state[f"{name}.{kind}"])
            for kind in ("weight", "bias")
            if f"{name}.{kind}" in state
        ]
        return node(
            "Conv", name, source, *given, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4
        )

    x = node("Sub", "centre", "image", constant("mean", np.full((1, 1, 1, 1), PIXEL_MEAN)))
    x = node("Div", "normal", x, constant("deviation", np.full((1, 1, 1, 1), PIXEL_DEVIATION)))
    for number in range(5):
        y = conv(f"convs.{number}", x, 3, 2 if number < 3 else 1)
        kinds = ("weight", "bias", "running_mean", "running_var")
        statistics = [constant(f"norms.{number}.{kind}", state[f"norms.{number}.{kind}"]) for kind in kinds]
        y = node("Relu", f"relu{number}", node("BatchNormalization", f"norm{number}", y, *statistics, epsilon=1e-5))
        x = node("Add", f"sum{number}", x, y) if number >= 3 else y
    node("Sigmoid", "score_sigmoid", conv("score", x, 1, 1))
    node("Relu", "box_relu", conv("box", x, 1, 1))
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, SIZE, SIZE])],
        [
            helper.make_tensor_value_info("score_sigmoid", TensorProto.FLOAT, [1, 1, GRID, GRID]),
            helper.make_tensor_value_info("box_relu", TensorProto.FLOAT, [1, 4, GRID, GRID]),
        ],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def write_images(faces: npt.NDArray[np.uint8]) -> None:
    lines = ["image,class,x_min,y_min,x_max,y_max"]
    for name, count, seed in (("calibration", 16, 50), ("held_out", 12, 60)):
        (HERE / name).mkdir(exist_ok=True)
        for index in range(count):
            picture, boxes = scene(np.random.default_rng([seed, index]), faces)
            Image.fromarray(picture).save(HERE / name / f"{index:02d}.png")
            if name == "held_out":
                lines += [f"{index:02d}.png,0," + ",".join(f"{v / SIZE:.4f}" for v in box) for box in boxes]
    (HERE / "boxes.csv").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--people", type=int, default=120)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    people = range(FIRST_PERSON, FIRST_PERSON + arguments.people)
    faces = np.stack([draw(identity(p), picture_rng(p, n), size=96) for p in people for n in range(2)])
    network = train(faces, arguments.steps)
    (HERE / "detector.onnx").write_bytes(to_onnx(network).SerializeToString(deterministic=True))
    write_images(faces[-40:])


if __name__ == "__main__":
    main()
