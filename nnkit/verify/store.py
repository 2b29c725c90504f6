"""The inputs that a build was verified on and the outputs it must give, kept in `<build>/verify/`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample

_NAME_LENGTH = 100  # file systems end at 255 bytes
_PICTURE_SIDE = 160  # pixels of the longer side
_KEPT = 4  # enough to run a board against; all of them would dwarf the build


def store_samples(
    folder: Path, program: Program, samples: Sequence[Sample], outputs: Sequence[Mapping[str, NDArray[Any]]]
) -> None:
    """Keep the first few samples, with the Program's outputs for them.

    Writes `<n>_<tensor>.npy` (stored integers) for inputs and outputs, and `<n>_<input>_float.npy` (real units).
    outputs: stored integers by name, one mapping a sample.
    """
    folder.mkdir()
    for index, sample in enumerate(samples[:_KEPT]):
        stored = {**quantized_inputs(program, sample), **outputs[index]}
        for name in program.inputs:
            np.save(float_input_path(folder, index, name), sample.inputs[name])
        for name in (*program.inputs, *program.outputs):
            np.save(folder / f"{index}_{_safe(name)}.npy", stored[name].astype(program.tensors[name].format.dtype))


def store_pictures(folder: Path, pictures: Mapping[int, NDArray[np.uint8]]) -> dict[int, str]:
    """Write pictures by index of the sample to `pictures/<index>.png`; their paths below the build folder.

    pictures: [H, W] gray or [H, W, 3]; larger ones are made smaller.
    """
    from PIL import Image

    (folder / "pictures").mkdir()
    paths = {}
    for index, pixels in pictures.items():
        picture = Image.fromarray(pixels)
        picture.thumbnail((_PICTURE_SIDE, _PICTURE_SIDE))
        picture.save(folder / "pictures" / f"{index}.png", optimize=True)
        paths[index] = f"{folder.name}/pictures/{index}.png"
    return paths


def float_input_path(folder: Path, index: int, name: str) -> Path:
    """Where the real-unit values of input `name` of sample `index` are kept."""
    return folder / f"{index}_{_safe(name)}_float.npy"


def _safe(name: str) -> str:
    """`name` as part of a file name; one that has to change gets a digest, so that two names stay two files."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "_" for c in name)[:_NAME_LENGTH]
    if safe == name and not name.endswith("_float"):
        return name
    return f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
