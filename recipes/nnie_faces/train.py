"""Trains the networks of the NNIE recipes on drawn faces and writes them where the recipes are. Needs `[train]`.

    python train.py --work out/train          # draws, trains both, fits the projections, writes the recipes' files

Cross-entropy over identities with cosine logits. All is seeded. Two minutes of drawing and half an hour of training
on one core; the networks are there to show the flow, not to recognise anyone's face.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "gap8_reid"))  # the faces are drawn as for the default network

from draw_faces import draw, identity, picture_rng  # noqa: E402
from face_networks import (  # noqa: E402
    COMPONENT_FEATURE,
    COMPONENTS,
    FACE_SIZE,
    STN_FEATURE,
    HalfFaceDescriptor,
    StnDescriptor,
    half_crops,
)
from write_onnx import write_half_face, write_stn  # noqa: E402

ByteArray = npt.NDArray[np.uint8]
FIRST_PERSON = 2_000_000
PCA_COMPONENTS = 96
LOGIT_SCALE = 16.0


def pictures(path: Path, first: int, people: int, count: int) -> ByteArray:
    """[people, count, 112, 112], drawn once and kept."""
    if not path.exists():
        print(f"drawing {people * count} pictures", flush=True)
        faces = [
            [draw(identity(p), picture_rng(p, n), size=FACE_SIZE) for n in range(count)]
            for p in range(first, first + people)
        ]
        np.save(path, np.asarray(faces, np.uint8))
    return np.load(path)


def batch_of(images: ByteArray, step: int, people: int = 24, each: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """A function of the step alone: pixels [N, 1, 112, 112], brightness and place varied a little; labels."""
    rng = np.random.default_rng([7, step])
    chosen = rng.choice(len(images), people, replace=False)
    batch = np.concatenate([images[p, rng.choice(images.shape[1], each, replace=False)] for p in chosen])
    gain = rng.normal(1.0, 0.1, (len(batch), 1, 1, 1)).astype(np.float32)
    shift = rng.normal(0.0, 6.0, (len(batch), 1, 1, 1)).astype(np.float32)
    pixels = np.clip(batch[:, None].astype(np.float32) * gain + shift, 0, 255)
    return moved(torch.from_numpy(pixels), rng), torch.from_numpy(np.repeat(chosen, each))


def moved(pixels: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Every picture turned, scaled and shifted by a little of its own: what the spatial transformer has to undo."""
    count = len(pixels)
    angle, scale = rng.normal(0.0, 0.08, count), np.exp(rng.normal(0.0, 0.05, count))
    shift = rng.normal(0.0, 0.04, (count, 2))
    cosine, sine = np.cos(angle) * scale, np.sin(angle) * scale
    rows = np.stack([[cosine, -sine, shift[:, 0]], [sine, cosine, shift[:, 1]]]).transpose(2, 0, 1)
    grid = functional.affine_grid(torch.from_numpy(rows.astype(np.float32)), list(pixels.shape), align_corners=False)
    return functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


def features_of(network: nn.Module, image: torch.Tensor) -> torch.Tensor:
    """What identities are told by: the descriptor, or both halves' after one another."""
    if isinstance(network, HalfFaceDescriptor):
        return torch.cat([network(half_crops(image)), network(half_crops(image.flip(3)))], dim=1)
    found: torch.Tensor = network(image)
    return found


def train(network: nn.Module, width: int, images: ByteArray, steps: int) -> nn.Module:
    """Trains and returns the network, ready for inference."""
    torch.manual_seed(1)
    classes = nn.Parameter(0.05 * torch.randn(len(images), width))
    neck = nn.BatchNorm1d(width, affine=False)
    transformer = [p for name, p in network.named_parameters() if name.startswith(("stn.", "matrix."))]
    others = [p for name, p in network.named_parameters() if not name.startswith(("stn.", "matrix."))]
    groups = [{"params": [*others, classes]}, {"params": transformer}]
    optimizer = torch.optim.AdamW(groups[: 2 if transformer else 1], lr=2e-3, weight_decay=5e-4)
    rates = [4e-3, 4e-4][: len(optimizer.param_groups)]  # a transformer that moves fast loses the face for good
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps, pct_start=0.15)
    began = time.monotonic()
    network.train()
    for step in range(steps):
        image, people = batch_of(images, step)
        direction = functional.normalize(neck(features_of(network, image)))
        logits = LOGIT_SCALE * direction @ functional.normalize(classes).T
        loss = functional.cross_entropy(logits, people, label_smoothing=0.05)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}/{steps}, {time.monotonic() - began:.0f} s: loss {loss.item():.3f}", flush=True)
    return network.eval()


@torch.no_grad()
def all_features(network: nn.Module, images: ByteArray) -> npt.NDArray[np.float64]:
    """[people * pictures, width]."""
    flat = torch.from_numpy(images.reshape(-1, 1, FACE_SIZE, FACE_SIZE).astype(np.float32))
    return torch.cat([features_of(network, part) for part in flat.split(96)]).numpy().astype(np.float64)


def pca(features: npt.NDArray[np.float64], components: int) -> dict[str, npt.NDArray[np.float32]]:
    """mean [D] and matrix [D, K]: the directions of the largest variance, orthonormal, signs fixed."""
    mean = features.mean(axis=0)
    _, _, rows = np.linalg.svd(features - mean, full_matrices=False)
    matrix = rows[:components].T
    matrix = matrix * np.sign(matrix[np.abs(matrix).argmax(axis=0), np.arange(components)])
    return {"mean": mean.astype(np.float32), "matrix": matrix.astype(np.float32)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the drawn pictures")
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--people", type=int, default=2400)
    parser.add_argument("--threads", type=int, default=1, help="the results depend on it, in the last digits")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(True)
    images = pictures(arguments.work / f"faces_{arguments.people}.npy", FIRST_PERSON, arguments.people, 6)
    torch.manual_seed(0)
    stn = train(StnDescriptor(), STN_FEATURE, images, arguments.steps)
    write_stn(stn, pca(all_features(stn, images), PCA_COMPONENTS), HERE.parent / "nnie_cv500_stn")
    torch.manual_seed(0)
    half = train(HalfFaceDescriptor(), 2 * len(COMPONENTS) * COMPONENT_FEATURE, images, arguments.steps)
    both = all_features(half, images)
    width = both.shape[1] // 2
    halves = np.concatenate([both[:, :width], both[:, width:]])
    folders = [HERE.parent / "nnie_dv300_nostn", HERE.parent / "nnie_3559a_pca_combine"]
    tables = [pca(halves, PCA_COMPONENTS // 2), pca(both, PCA_COMPONENTS)]
    for folder, table in zip(folders, tables, strict=True):
        write_half_face(half, table, folder)


if __name__ == "__main__":
    main()
