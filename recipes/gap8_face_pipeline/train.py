"""Trains this recipe's face detector on drawn scenes and writes it as `detector.onnx`. Needs the extra `[train]`.

    python train.py

[1, 1, 120, 160] of pixels 0..255, a frame of 240x320 at half its size, to `location` [1, 800, 4], what moves each
default box (x and y of the centre in its sides * 0.1, logarithms of the sides * 0.2), and `face` [1, 800, 1], how
surely it holds a face. The default boxes are squares, two at each position of the maps of 15x20, 8x10 and 4x5. It
also draws the pictures of the recipe. All is seeded; people and scenes of training, calibration and test differ.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from draw_pictures import draw_pictures
from draw_scenes import HEIGHT, WIDTH, Face, scene, shrunk
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
FACTOR = 2
ROWS, COLUMNS = HEIGHT // FACTOR, WIDTH // FACTOR
MAPS = ((15, 20, 8, 18.0, 26.0), (8, 10, 16, 38.0, 52.0), (4, 5, 32, 68.0, 92.0))
"""Of each map: rows, columns, distance of its boxes, and the sides of the two at a position, in its pixels."""
WIDTHS = ((1, 8, 2), (8, 16, 2), (16, 24, 2), (24, 32, 1), (32, 48, 2), (48, 48, 1), (48, 64, 2), (64, 64, 1))
TAPS = (3, 5, 7)
"""The layers whose maps the heads read."""
MEAN, DEVIATION = 120.0, 60.0
Floats = NDArray[np.float32]


class Detector(nn.Module):
    """Logits [N, 800] and locations [N, 800, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(a, b, 3, s, 1, bias=False) for a, b, s in WIDTHS])
        self.norms = nn.ModuleList([nn.BatchNorm2d(b) for _, b, _ in WIDTHS])
        taps = [WIDTHS[tap][1] for tap in TAPS]
        self.scores = nn.ModuleList([nn.Conv2d(width, 2, 3, 1, 1) for width in taps])
        self.boxes = nn.ModuleList([nn.Conv2d(width, 2 * 4, 3, 1, 1) for width in taps])
        for head in self.scores:
            nn.init.constant_(head.bias, -4.0)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = (pixels - MEAN) / DEVIATION
        maps = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.relu(norm(conv(x)))
            maps.append(x)
        logits, moves = [], []
        for tap, score, box in zip(TAPS, self.scores, self.boxes, strict=True):
            logits.append(score(maps[tap]).permute(0, 2, 3, 1).reshape(len(x), -1))
            moves.append(box(maps[tap]).permute(0, 2, 3, 1).reshape(len(x), -1, 4))
        return torch.cat(logits, 1), torch.cat(moves, 1)


def priors() -> Floats:
    """[boxes, 4]: centre and sides in the network's pixels."""
    rows = []
    for height, width, step, *sizes in MAPS:
        for y in range(height):
            for x in range(width):
                rows += [((x + 0.5) * step, (y + 0.5) * step, size, size) for size in sizes]
    return np.array(rows, np.float32)


def targets(faces: Sequence[Face], boxes: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Of each default box: 1 face, 0 none, -1 between the two; and where it has to move."""
    kinds, moves = np.zeros(len(boxes), np.int64), np.zeros((len(boxes), 4), np.float32)
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    best = np.zeros(len(boxes))
    for _, *corners in faces:
        box = np.array(corners, np.float32) / FACTOR
        common = np.clip(np.minimum(high, box[2:]) - np.maximum(low, box[:2]), 0, None).prod(axis=1)
        sides = box[2:] - box[:2]
        overlap = common / (boxes[:, 2:].prod(axis=1) + sides.prod() - common)
        chosen = (overlap > min(0.5, overlap.max() - 1e-6)) & (overlap > best)
        kinds[(overlap > 0.35) & (kinds == 0)] = -1
        kinds[chosen] = 1
        best = np.maximum(best, overlap)
        centre = (box[:2] + box[2:]) / 2
        moves[chosen, :2] = (centre - boxes[chosen, :2]) / boxes[chosen, 2:] / 0.1
        moves[chosen, 2:] = np.log(sides / boxes[chosen, 2:]) / 0.2
    return kinds, moves


def training_scene(index: int) -> tuple[NDArray[np.uint8], list[Face]]:
    """The people are those that the descriptor was trained on, 0 to 2999, none to three of them."""
    rng = np.random.default_rng([17, index])
    return scene(rng, rng.integers(0, 3000, rng.integers(0, 4)).tolist())


def trained(scenes: int, epochs: int) -> Detector:
    """The network, trained on so many scenes; half of the batches are mirrored."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    boxes = priors()
    drawn = [training_scene(index) for index in range(scenes)]
    pixels = torch.tensor(np.stack([shrunk(picture, FACTOR) for picture, _ in drawn]))[:, None]
    sides = []
    for mirrored in (False, True):
        wanted = [targets([_mirrored(face) if mirrored else face for face in faces], boxes) for _, faces in drawn]
        kinds = torch.tensor(np.stack([kind for kind, _ in wanted]))
        sides.append((kinds, torch.tensor(np.stack([move for _, move in wanted]))))
    print("drawn", flush=True)
    net = Detector()
    steps = epochs * (scenes // 32)
    optimizer = torch.optim.AdamW(net.parameters(), 4e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=max(steps, 2))
    for _ in range(epochs):
        order = torch.randperm(scenes)
        for number, batch in enumerate(order[: scenes // 32 * 32].reshape(-1, 32)):
            kinds, moves = sides[number % 2]
            shown = pixels[batch].float()
            shown = shown.flip(-1) if number % 2 else shown
            shown = (shown - 128) * torch.empty(32, 1, 1, 1).uniform_(0.6, 1.3) + 128
            logits, found = net(shown + torch.empty(32, 1, 1, 1).uniform_(-25, 25))
            loss = _loss(logits, found, kinds[batch], moves[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"loss {float(loss):.3f}", flush=True)
    return net.eval()


def _mirrored(face: Face) -> Face:
    person, left, top, right, bottom = face
    return person, WIDTH - right, top, WIDTH - left, bottom


def _loss(logits: torch.Tensor, found: torch.Tensor, kinds: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    """Of SSD: cross-entropy of the boxes of faces and of the three times as many hardest others, smooth L1."""
    shaped = kinds > 0
    entropy = functional.binary_cross_entropy_with_logits(logits, shaped.float(), reduction="none")
    count = shaped.sum().clamp(min=1)
    hardest = entropy.detach().masked_fill(kinds != 0, -1).flatten().topk(int(3 * count) + 32).indices
    counted = shaped.flatten().clone()
    counted[hardest] = True
    place = functional.smooth_l1_loss(found[shaped], moves[shaped], reduction="sum")
    return (entropy.flatten()[counted].sum() + place) / count


def network(net: Detector) -> onnx.ModelProto:
    """The network with its normalisations in the convolutions; the first reads raw pixels, padded with the mean."""
    constants: dict[str, NDArray[np.generic]] = {
        "mean": np.full((1, 1, 1, 1), MEAN, np.float32),
        "rows4": np.array([1, -1, 4], np.int64),
        "rows1": np.array([1, -1, 1], np.int64),
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
    for kind, heads, shape in (("score", net.scores, "rows1"), ("box", net.boxes, "rows4")):
        for tap, head in zip(TAPS, heads, strict=True):
            name = f"{kind}{tap}"
            constants[f"{name}_w"], constants[f"{name}_b"] = head.weight.detach().numpy(), head.bias.detach().numpy()
            nodes += _conv(name, maps[tap], f"{name}_w", f"{name}_b", f"{name}_map", 1)
            nodes.append(helper.make_node("Transpose", [f"{name}_map"], [f"{name}_turned"], perm=[0, 2, 3, 1]))
            nodes.append(helper.make_node("Reshape", [f"{name}_turned", shape], [f"{name}_rows"]))
    for kind, joined in (("score", "logits"), ("box", "location")):
        nodes.append(helper.make_node("Concat", [f"{kind}{tap}_rows" for tap in TAPS], [joined], name=joined, axis=1))
    nodes.append(helper.make_node("Sigmoid", ["logits"], ["face"], name="face"))
    boxes = len(priors())
    graph = helper.make_graph(
        nodes,
        "faces",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 1, ROWS, COLUMNS))],
        [
            helper.make_tensor_value_info("location", TensorProto.FLOAT, (1, boxes, 4)),
            helper.make_tensor_value_info("face", TensorProto.FLOAT, (1, boxes, 1)),
        ],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def _conv(name: str, value: str, weights: str, bias: str, result: str, stride: int) -> list[onnx.NodeProto]:
    return [helper.make_node("Conv", [value, weights, bias], [result], name=name, pads=[1] * 4, strides=[stride] * 2)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenes", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=14)
    arguments = parser.parse_args()
    draw_pictures(HERE)
    onnx.save(network(trained(arguments.scenes, arguments.epochs)), HERE / "detector.onnx")


if __name__ == "__main__":
    main()
