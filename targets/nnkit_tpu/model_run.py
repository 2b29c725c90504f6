"""A compiled model on the vendor's chip model: inputs as it takes them, outputs as the program stores them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit.program import Affine, Program
from nnkit_tpu.casts import rounded
from nnkit_tpu.chip_model import run_all_on_chip_model
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.pixels import as_given
from nnkit_tpu.toolchain import Toolchain
from nnkit_tpu.top_mlir import PixelInput

_SUFFIX = re.compile(r"_(f32|f16|bf16|i8|u8|si8|ui8)$")

Given = Sequence[Mapping[str, NDArray[Any]]]


def run_model_inside(
    toolchain: Toolchain, model: Path, program: Program, build: Mapping[str, Any], inputs: Given
) -> list[dict[str, NDArray[Any]]]:
    """Stored values of all tensors that the model holds; the compiler may have merged layers.

    Raises ToolError where the chip model fails, or the model holds no value of the program's.
    """
    return _run(toolchain, model, program, build, inputs, [op.output for op in program.ops], all_held=False)


def run_model(
    toolchain: Toolchain,
    model: Path,
    program: Program,
    build: Mapping[str, Any],
    inputs: Given,
    wanted: Sequence[str],
) -> list[dict[str, NDArray[Any]]]:
    """Stored values of the `wanted` tensors for each set of inputs.

    build: what `build.json` says of the model (`chip`, `names`, `pixels`, `batch`: images at a time).

    Raises ToolError where the chip model fails, or does not give one of them.
    """
    return _run(toolchain, model, program, build, inputs, wanted, all_held=True)


def _run(
    toolchain: Toolchain,
    model: Path,
    program: Program,
    build: Mapping[str, Any],
    inputs: Given,
    wanted: Sequence[str],
    *,
    all_held: bool,
) -> list[dict[str, NDArray[Any]]]:
    names, chip = build["names"], build["chip"]
    pixels = {name: PixelInput(**each) for name, each in build.get("pixels", {}).items()}
    given = [
        {names[name]: _as_read(program, name, run[name], pixels.get(name)) for name in program.inputs}
        for run in inputs
    ]
    single, batch = chip not in CV_CHIPS, build.get("batch", 1)
    outputs = run_all_on_chip_model(toolchain, model, chip, _batched(given, batch))
    alone = [run for each in outputs for run in _images(each, batch)][: len(given)]
    stored = [_stored(program, names, run, wanted, single) for run in alone]
    for values, run in zip(stored, alone, strict=True):
        lacking = [names[name] for name in wanted if name not in values]
        if lacking and (all_held or not values):
            raise ToolError(f"the model gives no {lacking[0]!r}", where=f"it gives {', '.join(run)}")
    return stored


def _batched(given: Given, batch: int) -> Given:
    """So many images at a time; the last batch is filled with its last image."""
    filled = [*given, *([given[-1]] * (-len(given) % batch))]
    return [
        {name: np.concatenate([run[name] for run in filled[first : first + batch]]) for name in filled[first]}
        for first in range(0, len(filled), batch)
    ]


def _images(run: Mapping[str, NDArray[Any]], batch: int) -> list[dict[str, NDArray[Any]]]:
    """The outputs of each image of a batch."""
    parts = {name: value.reshape(batch, -1) for name, value in run.items()}
    return [{name: part[index] for name, part in parts.items()} for index in range(batch)]


def _as_read(program: Program, name: str, value: NDArray[Any], pixels: PixelInput | None) -> NDArray[Any]:
    """An input as the model takes it."""
    tensor = program.tensors[name]
    if pixels is not None:
        return as_given(np.asarray(value).reshape(tensor.shape), pixels)
    return np.asarray(value, tensor.format.dtype).reshape(1, *tensor.shape)


def _stored(
    program: Program,
    names: Mapping[str, str],
    arrays: Mapping[str, NDArray[Any]],
    wanted: Sequence[str],
    single: bool,
) -> dict[str, NDArray[Any]]:
    """Those values that the model gives, as the program stores them; for integers it gives multiples of a scale.

    single: the scale is applied in float32. The cv18xx apply it in BF16, rounded to that itself: with the exact scale
    large integers would come back one off.
    """
    by_name = {_SUFFIX.sub("", key): value for key, value in arrays.items()} | dict(arrays)
    in_order = list(arrays.items())
    if len(in_order) == len(wanted):  # a cast before an output may carry its reader's name too
        for name, (key, value) in zip(wanted, in_order, strict=True):
            if key.startswith(names[name]):
                by_name[names[name]] = value
    stored: dict[str, NDArray[Any]] = {}
    for name in wanted:
        tensor = program.tensors[name]
        given = by_name.get(names[name], by_name.get(_SUFFIX.sub("", names[name])))
        if given is None:
            continue
        if isinstance(tensor.format, Affine) and given.dtype.kind == "f":
            scale = np.array(tensor.format.scale) if single else rounded(np.array(tensor.format.scale), "BF16")
            given = np.rint(given.astype(np.float64) / float(scale[0])) + tensor.format.zero_point[0]
        stored[name] = given.reshape(tensor.shape).astype(tensor.format.dtype)
    return stored
