"""Trains the small SSD of this recipe on drawn scenes and writes it as `shapes.onnx`. Needs the extra `[train]`.

    python train.py

[1, 1, 96, 96] of pixels 0..255 to `location` [1, 378, 4], what moves each default box (x and y of the centre in its
sides * 0.1, logarithms of the sides * 0.2), and `confidence` [1, 378, 4], the probabilities of background and three
classes. The default boxes are squares, two at each position of the maps of 12 x 12, 6 x 6 and 3 x 3. It also writes
the pictures that the recipe calibrates and verifies on, and `shapes.csv`. All is seeded; takes a few minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from draw_shapes import CLASSES, SIDE, Shape, scene
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
KINDS = len(CLASSES) + 1
SIZES = ((12, 12.0, 22.0), (6, 24.0, 36.0), (3, 40.0, 56.0))
"""Of each map: its side, and the sides of the boxes at a position: min_size and sqrt(min_size * max_size)."""
WIDTHS = ((1, 8, 2), (8, 16, 2), (16, 24, 1), (24, 32, 2), (32, 32, 1), (32, 48, 2), (48, 48, 2))
TAPS = (4, 5, 6)
"""The layers whose maps the heads read."""
MEAN, DEVIATION = 120.0, 60.0
Floats = NDArray[np.float32]


class Detector(nn.Module):
    """Logits [N, 378, 4] and locations [N, 378, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(a, b, 3, s, 1, bias=False) for a, b, s in WIDTHS])
        self.norms = nn.ModuleList([nn.BatchNorm2d(b) for _, b, _ in WIDTHS])
        taps = [WIDTHS[tap][1] for tap in TAPS]
        self.scores = nn.ModuleList([nn.Conv2d(width, 2 * KINDS, 3, 1, 1) for width in taps])
        self.boxes = nn.ModuleList([nn.Conv2d(width, 2 * 4, 3, 1, 1) for width in taps])

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = (pixels - MEAN) / DEVIATION
        maps = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.relu(norm(conv(x)))
            maps.append(x)
        logits, moves = [], []
        for tap, score, box in zip(TAPS, self.scores, self.boxes, strict=True):
            logits.append(score(maps[tap]).permute(0, 2, 3, 1).reshape(len(x), -1, KINDS))
            moves.append(box(maps[tap]).permute(0, 2, 3, 1).reshape(len(x), -1, 4))
        return torch.cat(logits, 1), torch.cat(moves, 1)


def priors() -> Floats:
    """[boxes, 4]: centre and sides in pixels."""
    rows = []
    for side, *sizes in SIZES:
        step = SIDE / side
        for y in range(side):
            for x in range(side):
                rows += [((x + 0.5) * step, (y + 0.5) * step, size, size) for size in sizes]
    return np.array(rows, np.float32)


def targets(shapes: list[Shape], boxes: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Class of each default box, and where it has to move: what overlaps a shape by half, and the best of each."""
    kinds, moves = np.zeros(len(boxes), np.int64), np.zeros((len(boxes), 4), np.float32)
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    for kind, *corners in shapes:
        box = np.array(corners, np.float32)
        common = np.clip(np.minimum(high, box[2:]) - np.maximum(low, box[:2]), 0, None).prod(axis=1)
        sides = box[2:] - box[:2]
        overlap = common / (boxes[:, 2:].prod(axis=1) + sides.prod() - common)
        chosen = overlap > min(0.5, overlap.max() - 1e-6)
        kinds[chosen] = kind
        centre = (box[:2] + box[2:]) / 2
        moves[chosen, :2] = (centre - boxes[chosen, :2]) / boxes[chosen, 2:] / 0.1
        moves[chosen, 2:] = np.log(sides / boxes[chosen, 2:]) / 0.2
    return kinds, moves


def trained(scenes: int, epochs: int) -> Detector:
    """The network, trained on so many scenes."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    boxes = priors()
    drawn = [scene(np.random.default_rng(index)) for index in range(scenes)]
    pixels = torch.tensor(np.stack([picture for picture, _ in drawn]))[:, None]
    wanted = [targets(shapes, boxes) for _, shapes in drawn]
    kinds = torch.tensor(np.stack([kind for kind, _ in wanted]))
    moves = torch.tensor(np.stack([move for _, move in wanted]))
    net = Detector()
    steps = epochs * (scenes // 32)
    optimizer = torch.optim.AdamW(net.parameters(), 4e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=max(steps, 2))
    for _ in range(epochs):
        order = torch.randperm(scenes)
        for batch in order[: scenes // 32 * 32].reshape(-1, 32):
            logits, found = net(pixels[batch].float())
            loss = _loss(logits, found, kinds[batch], moves[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"loss {float(loss):.3f}", flush=True)
    return net.eval()


def _loss(logits: torch.Tensor, found: torch.Tensor, kinds: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    """Of SSD: cross-entropy of the boxes of shapes and of the three times as many hardest others, smooth L1."""
    shaped = kinds > 0
    entropy = functional.cross_entropy(logits.flatten(0, 1), kinds.flatten(), reduction="none").reshape(kinds.shape)
    count = shaped.sum().clamp(min=1)
    hardest = entropy.detach().masked_fill(shaped, -1).flatten().topk(int(3 * count)).indices
    counted = shaped.flatten().clone()
    counted[hardest] = True
    place = functional.smooth_l1_loss(found[shaped], moves[shaped], reduction="sum")
    return (entropy.flatten()[counted].sum() + place) / count


def network(net: Detector) -> onnx.ModelProto:
    """The network with its normalisations in the convolutions; the first reads raw pixels, padded with the mean."""
    constants: dict[str, NDArray[np.generic]] = {
        "mean": np.full((1, 1, 1, 1), MEAN, np.float32),
        "rows4": np.array([1, -1, 4], np.int64),
        "rows_kinds": np.array([1, -1, KINDS], np.int64),
    }
    nodes = [helper.make_node("Sub", ["image", "mean"], ["centred"], name="centre")]
    value, maps = "centred", []
    for number, (conv, norm) in enumerate(zip(net.convs, net.norms, strict=True)):
        scale = (norm.weight / torch.sqrt(norm.running_var + norm.eps)).detach()
        weights = conv.weight.detach() * scale[:, None, None, None] / (DEVIATION if number == 0 else 1)
        constants[f"w{number}"] = weights.numpy()
        constants[f"b{number}"] = (norm.bias.detach() - norm.running_mean * scale).numpy()
        nodes += _conv(f"conv{number}", value, f"w{number}", f"b{number}", f"c{number}", WIDTHS[number][2])
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"], name=f"relu{number}"))
        value = f"r{number}"
        maps.append(value)
    for kind, heads, shape in (("score", net.scores, "rows_kinds"), ("box", net.boxes, "rows4")):
        for tap, head in zip(TAPS, heads, strict=True):
            name = f"{kind}{tap}"
            constants[f"{name}_w"], constants[f"{name}_b"] = head.weight.detach().numpy(), head.bias.detach().numpy()
            nodes += _conv(name, maps[tap], f"{name}_w", f"{name}_b", f"{name}_map", 1)
            nodes.append(helper.make_node("Transpose", [f"{name}_map"], [f"{name}_turned"], perm=[0, 2, 3, 1]))
            nodes.append(helper.make_node("Reshape", [f"{name}_turned", shape], [f"{name}_rows"]))
    for kind, joined in (("score", "logits"), ("box", "location")):
        nodes.append(helper.make_node("Concat", [f"{kind}{tap}_rows" for tap in TAPS], [joined], name=joined, axis=1))
    nodes.append(helper.make_node("Softmax", ["logits"], ["confidence"], name="confidence", axis=-1))
    boxes = len(priors())
    graph = helper.make_graph(
        nodes,
        "shapes",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, SIDE, SIDE))],
        [
            helper.make_tensor_value_info("location", TensorProto.FLOAT, (1, boxes, 4)),
            helper.make_tensor_value_info("confidence", TensorProto.FLOAT, (1, boxes, KINDS)),
        ],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def _conv(name: str, value: str, weights: str, bias: str, result: str, stride: int) -> list[onnx.NodeProto]:
    return [helper.make_node("Conv", [value, weights, bias], [result], name=name, pads=[1] * 4, strides=[stride] * 2)]


def draw_pictures(folder: Path) -> None:
    """The pictures of the recipe, and `shapes.csv`: picture, class, and corners as shares of the side."""
    lines = []
    for kind, first, count in (("calibration", 1_000_000, 24), ("held_out", 2_000_000, 24)):
        (folder / kind).mkdir(exist_ok=True)
        for index in range(count):
            pixels, shapes = scene(np.random.default_rng(first + index))
            Image.fromarray(pixels).save(folder / kind / f"{index:02}.png", optimize=True)
            if kind == "held_out":
                for shape, *corners in shapes:
                    lines.append(f"{index:02}.png,{shape},{','.join(f'{corner / SIDE:.4f}' for corner in corners)}\n")
    (folder / "shapes.csv").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=14)
    arguments = parser.parse_args()
    draw_pictures(HERE)
    onnx.save(network(trained(arguments.scenes, arguments.epochs)), HERE / "shapes.onnx")


if __name__ == "__main__":
    main()
