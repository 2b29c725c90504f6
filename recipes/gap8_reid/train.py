"""Trains the default network on drawn faces and writes it as `reid.onnx`. Needs the extra `[train]`.

    python train.py --work out/train        # draws the faces, trains, writes out/train/reid.onnx

The loss is that of the published network: cross-entropy over the training identities plus the lifted
structured loss (Oh Song et al., CVPR 2016, equation 4) on the L2 distances of the raw descriptors. Training
goes through three resolutions, the last being the network's own. All is seeded; a run that was interrupted
goes on from its last checkpoint when started again with the same `--work`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from draw_faces import draw, identity, picture_rng
from export import to_onnx
from network import DESCRIPTOR_SIZE, DescriptorNet
from torch import nn
from torch.nn import functional

ByteArray = npt.NDArray[np.uint8]

VALIDATION_SEED = 500_000
"""First validation identity; training identities count from 0, those of `verification.py` from 1,000,000."""


@dataclass(frozen=True)
class Stage:
    """A part of the training at one resolution."""

    pixels: int
    steps: int


@dataclass(frozen=True)
class Settings:
    """What determines the result."""

    seed: int = 1
    identities: int = 3000
    pictures: int = 10
    people_per_batch: int = 32
    pictures_per_person: int = 4
    stages: tuple[Stage, ...] = (Stage(64, 2200), Stage(96, 800), Stage(128, 550))
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    logit_scale: float = 16.0
    label_smoothing: float = 0.05
    lifted_margin: float = 1.0
    lifted_weight: float = 0.3

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)


class Trainee(nn.Module):
    """The network with the classifier that only training needs: cosine logits of centred descriptors."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.network = DescriptorNet()
        self.neck = nn.BatchNorm1d(DESCRIPTOR_SIZE, affine=False)
        self.classes = nn.Parameter(0.04 * torch.randn(settings.identities, DESCRIPTOR_SIZE))
        self.scale = settings.logit_scale

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        descriptor = self.network(image)
        direction = functional.normalize(self.neck(descriptor))
        return descriptor, self.scale * direction @ functional.normalize(self.classes).T


def lifted_structured_loss(descriptors: torch.Tensor, people: torch.Tensor, margin: float) -> torch.Tensor:
    """Mean over pairs of equal people of max(0, log sum exp(margin - D_negative) + D_positive)^2 / 2.

    `descriptors` [N, 512], `people` [N]. The negatives of a pair are those of both its members.
    """
    squared = torch.cdist(descriptors, descriptors, compute_mode="donot_use_mm_for_euclid_dist").square()
    distance = (squared + 1e-6).sqrt()
    same = people[:, None] == people[None, :]
    push = torch.logsumexp((margin - distance).masked_fill(same, -math.inf), dim=1)
    first, second = torch.triu(same, diagonal=1).nonzero(as_tuple=True)
    loss = torch.logaddexp(push[first], push[second]) + distance[first, second]
    return 0.5 * loss.clamp(min=0).square().mean()


def _draw_person(person: int, pictures: int) -> ByteArray:
    face = identity(person)
    return np.stack([draw(face, picture_rng(person, picture)) for picture in range(pictures)])


def draw_people(path: Path, first: int, people: int, pictures: int, workers: int) -> ByteArray:
    """Pictures [people, pictures, 128, 128], drawn once and kept in the file `path`."""
    if not path.exists():
        print(f"drawing {people * pictures} pictures", flush=True)
        with ProcessPoolExecutor(workers) as pool:
            job = partial(_draw_person, pictures=pictures)
            images = np.stack(list(pool.map(job, range(first, first + people), chunksize=25)))
        partial_path = path.with_suffix(".tmp.npy")
        np.save(partial_path, images)
        partial_path.rename(path)
    return np.load(path, mmap_mode="r")


def augment(images: torch.Tensor, pixels: int, generator: torch.Generator) -> torch.Tensor:
    """Crops, light and a covered patch at random, at the resolution of the stage: [N, 1, pixels, pixels]."""
    count = len(images)

    def normal(deviation: float, *shape: int) -> torch.Tensor:
        return deviation * torch.randn(count, *shape, generator=generator).clamp(-2, 2)

    angle, zoom = normal(0.05), normal(0.04).exp()
    cos, sin = zoom * angle.cos(), zoom * angle.sin()
    shift = normal(0.03, 2)
    matrix = torch.stack([cos, -sin, shift[:, 0], sin, cos, shift[:, 1]], dim=1).view(count, 2, 3)
    factor = images.shape[-1] / pixels
    if factor > 1:
        images = functional.interpolate(images, size=(pixels, pixels), mode="area")
    grid = functional.affine_grid(matrix, [count, 1, pixels, pixels], align_corners=False)
    images = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    images = images * normal(0.12, 1, 1, 1).exp() + normal(6.0, 1, 1, 1)
    place = torch.rand(count, 4, 1, generator=generator)
    line = torch.linspace(0, 1, pixels)
    size = 0.05 + 0.2 * place[:, 2]
    rows, columns = ((line - place[:, axis]).abs() < size for axis in (0, 1))
    covered = (rows[:, None, :, None] & columns[:, None, None, :]) & (place[:, 3, None, None] < 0.3)
    return torch.where(covered, 255 * place[:, 3, None, None] / 0.3, images).clamp(0, 255)


def batches(images: ByteArray, settings: Settings, start: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches from step `start` on, a function of the seed and the step alone."""
    for step in range(start, settings.steps):
        rng = np.random.default_rng([settings.seed, step])
        people = rng.choice(settings.identities, settings.people_per_batch, replace=False)
        chosen = [rng.choice(settings.pictures, settings.pictures_per_person, replace=False) for _ in people]
        batch = np.concatenate([images[person, pictures] for person, pictures in zip(people, chosen, strict=True)])
        labels = np.repeat(people, settings.pictures_per_person)
        yield torch.from_numpy(batch[:, None].astype(np.float32)), torch.from_numpy(labels)


def stage_of(step: int, settings: Settings) -> Stage:
    """The stage a step belongs to."""
    for stage in settings.stages:
        if step < stage.steps:
            return stage
        step -= stage.steps
    return settings.stages[-1]


@torch.no_grad()
def validate(network: DescriptorNet, images: ByteArray, pixels: int) -> float:
    """Accuracy over all pairs of validation pictures, same and different people weighted equally."""
    network.eval()
    flat = torch.from_numpy(images.reshape(-1, 1, *images.shape[2:]).astype(np.float32))
    if pixels != flat.shape[-1]:
        flat = functional.interpolate(flat, size=(pixels, pixels), mode="area")
    descriptors = torch.cat([network(part) for part in flat.split(100)])
    people = torch.arange(len(images)).repeat_interleave(images.shape[1])
    first, second = torch.triu_indices(len(people), len(people), offset=1)
    distance = torch.cdist(descriptors, descriptors)[first, second]
    same = people[first] == people[second]
    thresholds = torch.quantile(distance[same], torch.linspace(0.5, 1.0, 101))
    accuracies = [
        0.5 * ((distance[same] <= t).float().mean() + (distance[~same] > t).float().mean()) for t in thresholds
    ]
    network.train()
    return float(torch.stack(accuracies).max())


def train(settings: Settings, work: Path, threads: int) -> DescriptorNet:
    """Trains in the folder `work` (images, checkpoint) and returns the network, ready for inference."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    images = draw_people(
        work / f"train_{settings.identities}x{settings.pictures}.npy",
        0,
        settings.identities,
        settings.pictures,
        threads,
    )
    validation = draw_people(work / "validation.npy", VALIDATION_SEED, 150, 5, threads)
    trainee = Trainee(settings).to(memory_format=torch.channels_last)
    decayed = [p for p in trainee.parameters() if p.dim() > 1]
    plain = [p for p in trainee.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=settings.steps, pct_start=0.1
    )
    checkpoint, start, spent = work / "checkpoint.pt", 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        trainee.load_state_dict(saved["trainee"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        start, spent = saved["step"], saved["seconds"]
        print(f"going on from step {start}", flush=True)
    began = time.monotonic() - spent
    for step, (batch, people) in enumerate(batches(images, settings, start), start=start):
        pixels = stage_of(step, settings).pixels
        batch = augment(batch, pixels, torch.Generator().manual_seed(settings.seed * 1_000_003 + step))
        descriptors, logits = trainee(batch.contiguous(memory_format=torch.channels_last))
        entropy = functional.cross_entropy(logits, people, label_smoothing=settings.label_smoothing)
        lifted = lifted_structured_loss(descriptors, people, settings.lifted_margin)
        optimizer.zero_grad(set_to_none=True)
        (entropy + settings.lifted_weight * lifted).backward()
        nn.utils.clip_grad_norm_(trainee.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        done = step + 1
        if done % 50 == 0 or done == settings.steps:
            print(
                f"step {done}/{settings.steps} at {pixels} px, {time.monotonic() - began:.0f} s: "
                f"cross-entropy {entropy.item():.3f}, lifted {lifted.item():.3f}",
                flush=True,
            )
        if done % 200 == 0 or done == settings.steps:
            accuracy = validate(trainee.network, validation, pixels)
            print(f"step {done}: accuracy over validation pairs {accuracy:.4f}", flush=True)
            state = {
                "trainee": trainee.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "step": done,
                "seconds": time.monotonic() - began,
            }
            torch.save(state, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)
    return trainee.network.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for images, checkpoint and result")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    network = train(Settings(), arguments.work, arguments.threads)
    onnx.save(to_onnx(network), arguments.work / "reid.onnx")
    print(f"wrote {arguments.work / 'reid.onnx'}", flush=True)


if __name__ == "__main__":
    main()
