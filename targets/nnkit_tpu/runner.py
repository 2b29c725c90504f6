"""The vendor's chip model runs the artifact; every layer is compared on the chip model's own inputs of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit.program import Affine, Program
from nnkit.target import Contract, RunResult
from nnkit_tpu.casts import rounded
from nnkit_tpu.chip_model import run_all_on_chip_model
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.emit import TRACED, read_build
from nnkit_tpu.exactness import largest_difference
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.pixels import as_given
from nnkit_tpu.program import TpuOp
from nnkit_tpu.toolchain import require_toolchain
from nnkit_tpu.top_mlir import PixelInput

_SUFFIX = re.compile(r"_(f32|f16|bf16|i8|u8|si8|ui8)$")


class ChipModelRunner:
    """Outputs by the released model; inner values by the traced one, compiled from the same sources.

    A released model that computes something else than the traced one shows as a difference of the last layers.
    """

    name = "chip_model"
    contract: Contract = "bounded"
    emulated = True
    layer_by_layer: Literal[True] = True

    def __init__(self, options: TpuOptions) -> None:
        self._options = options

    def missing(self) -> str | None:
        """The toolchain, where it is not installed; the traced model, where the recipe leaves it out."""
        if not self._options.trace:
            return "the recipe says `trace: false`: inner values are not available"
        try:
            require_toolchain(self._options.toolchain)
        except ToolError as error:
            return f"{error.reason}: {error.remedy}"
        return None

    def bound(self, program: Program, tensor: str) -> float:
        """0 for layers that are exact, else one unit, or the last bits of a float."""
        op = program.producer(tensor)
        return largest_difference(op, self._options.chip) if isinstance(op, TpuOp) else 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs. Raises ToolError where there is no model, or the chip model fails."""
        toolchain = require_toolchain(self._options.toolchain)
        build = read_build(artifact)
        if not build["compiled"]:
            raise ToolError(
                "this artifact was built without the toolchain: there is no model in it",
                where=str(artifact),
                remedy="run `nnkit run` again, now that it is installed",
            )
        names = build["names"]
        pixels = {name: PixelInput(**each) for name, each in build.get("pixels", {}).items()}
        given = [
            {names[name]: _as_read(program, name, run[name], pixels.get(name)) for name in program.inputs}
            for run in inputs
        ]
        released = run_all_on_chip_model(toolchain, artifact / build["model"], build["chip"], given)
        single = build["chip"] not in CV_CHIPS
        outputs = [_stored(program, names, run, program.outputs, single) for run in released]
        traced_model = artifact / TRACED / build["model"]
        if not trace or not traced_model.exists():
            return [RunResult(each) for each in outputs]
        tensors = [op.output for op in program.ops]
        traced = run_all_on_chip_model(toolchain, traced_model, build["chip"], given)
        inner = [_stored(program, names, run, tensors, single) for run in traced]
        return [RunResult(each, all_) for each, all_ in zip(outputs, inner, strict=True)]


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
    """Values as the program stores them; the model gives real numbers, for integers multiples of a scale.

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
            raise ToolError(f"the model gives no {names[name]!r}", where=f"it gives {', '.join(arrays)}")
        if isinstance(tensor.format, Affine) and given.dtype.kind == "f":
            scale = np.array(tensor.format.scale) if single else rounded(np.array(tensor.format.scale), "BF16")
            given = np.rint(given.astype(np.float64) / float(scale[0]))
        stored[name] = given.reshape(tensor.shape).astype(tensor.format.dtype)
    return stored
