"""From a network of torch to an ONNX file with inputs to calibrate and verify on."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.catalogue import NETWORKS, Entry
from benchmarks.zoo.exported import Exported
from benchmarks.zoo.with_torch import nn, torch

Exporter = Literal["torchscript", "dynamo"]
EXPORTERS: tuple[Exporter, ...] = ("torchscript", "dynamo")
CALIBRATED, VERIFIED = 4, 2
_WARM_UP, _IMAGES = 3, 8  # batches that settle the normalisations, and how many inputs each has


def network(name: str) -> nn.Module:
    """The network with seeded weights, in evaluation mode; its normalisations have seen random inputs."""
    entry = NETWORKS[name]
    torch.manual_seed(sum(map(ord, name)))
    made = entry.make()
    _fill(made)
    made.train()
    for module in made.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = None
    generator = np.random.default_rng(1)
    with torch.no_grad():
        for _ in range(_WARM_UP):
            made(*map(torch.from_numpy, inputs(entry, generator, _IMAGES)))
    return made.eval()


def _fill(made: nn.Module) -> None:
    """Give the weights that start as nothing (last layers at 0, layers' scales at 1e-6) some size."""
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() > 1 and float(weight.abs().max()) < 1e-4:
                weight.normal_(0, 0.1)


def inputs(entry: Entry, generator: np.random.Generator, images: int = 1) -> Sequence[NDArray[np.generic]]:
    """One random value for each input, of that many images: normal, or ids of tokens."""
    shapes = [(images, *shape[1:]) for shape in entry.shapes]
    if entry.tokens is not None:
        return [generator.integers(0, entry.tokens, shape, np.int64) for shape in shapes]
    return [generator.normal(0, 1, shape).astype(np.float32) for shape in shapes]


def export(name: str, exporter: Exporter, folder: Path) -> Exported:
    """Write the network and its inputs into `folder`, which must exist. Errors are torch's own."""
    entry, path, names = NETWORKS[name], folder / f"{name}.onnx", tuple(shapes_of(name))
    write_inputs(name, folder, CALIBRATED, VERIFIED)
    example = tuple(torch.from_numpy(value) for value in inputs(entry, np.random.default_rng(3)))
    made = network(name)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        torch.onnx.export(made, example, path, dynamo=exporter == "dynamo", input_names=list(names), verbose=False)
    return Exported(path, names)


def write_inputs(name: str, folder: Path, calibrated: int, verified: int) -> None:
    """Seeded random inputs of a network, so many to calibrate and so many to verify on."""
    generator = np.random.default_rng(2)
    for number in range(calibrated + verified):
        prefix = "" if number < calibrated else "verify_"
        for key, value in zip(shapes_of(name), inputs(NETWORKS[name], generator), strict=True):
            np.save(folder / f"{prefix}{key}_{number}.npy", value)


def shapes_of(name: str) -> Mapping[str, tuple[int, ...]]:
    """The shapes of a network's inputs by name."""
    shapes = NETWORKS[name].shapes
    return {f"input{index}" if index else "input": shape for index, shape in enumerate(shapes)}
