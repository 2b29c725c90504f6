"""What layers of a quantised network are made with: the ops so far, the formats of their values, limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from nnkit.program import Window
from nnkit.program.affine import AffineOp, AffineProgram, Requantize
from nnkit.program.formats import Affine
from nnkit_tpu.program import TpuActivation, TpuConv, TpuOp
from nnkit_tpu.quantized.formats import range_of

Bounds: TypeAlias = tuple[float, float]
UNBOUNDED: Bounds = (-np.inf, np.inf)
OWN_ROUNDING = ("its activation is part of it", "export the activation with its own rounding")
IMAGE_RANK = 4
ONE_PIXEL = Window(1, 1)


class Building:
    """What has been built so far. unrounded: values between layers in float32 that the network does not have."""

    def __init__(self, program: AffineProgram) -> None:
        self.program = program
        self.ops: list[TpuOp] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.formats: dict[str, Affine] = {}
        self.unrounded: set[str] = set()
        for value in program.inputs:
            self.value(value, program.tensors[value].shape, program.tensors[value].format)

    def value(self, name: str, shape: Sequence[int], form: Affine) -> None:
        """A value without the batch axis."""
        self.shapes[name] = (1, *shape)
        self.formats[name] = form

    def common(self, op: AffineOp) -> dict[str, Any]:
        """Fields that all ops have."""
        return {"name": op.name, "inputs": op.inputs, "output": op.output, "origins": op.origins}

    def stored_as(self, source: str, output: str, name: str, window: Window = ONE_PIXEL) -> None:
        """A convolution with ones per channel, which stores `source`, [1, C, H, W], in the format of `output`.

        window: of one pixel, with the padding that the result is to have.
        """
        channels = self.shapes[source][1]
        self.ops.append(
            TpuConv(
                name=name,
                inputs=(source,),
                output=output,
                mode="INT8",
                weight=np.ones((channels, 1, 1, 1), np.float32),
                bias=np.zeros(channels, np.float32),
                window=window,
                group=channels,
                relu=is_from_zero(self.formats[output]),
                weight_scale=(1.0,) * channels,
            )
        )


def bounds_of(stage: Requantize, form: Affine) -> Bounds:
    """The real bounds of a clamp, without end where the format ends there."""
    scale, zero = form.scale[0], form.zero_point[0]
    low = -np.inf if stage.clip_min <= form.qmin else (stage.clip_min - zero) * scale
    high = np.inf if stage.clip_max >= form.qmax else (stage.clip_max - zero) * scale
    return float(low), float(high)


def is_from_zero(form: Affine) -> bool:
    """Whether the format has nothing negative."""
    return form.zero_point[0] == form.qmin


def clip(built: Building, name: str, source: str, output: str, bounds: Bounds = UNBOUNDED) -> None:
    """Limits in float32, of which the compiler takes the format as the calibration table has it."""
    known = range_of(built.formats[output])
    limits = max(bounds[0], known.low), min(bounds[1], known.high)
    built.ops.append(
        TpuActivation(name=name, inputs=(source,), output=output, mode="F32", function="clip", bounds=limits)
    )


def limited(built: Building, op: AffineOp, write: Callable[..., TpuOp], bounds: Bounds = UNBOUNDED) -> None:
    """A function in float32 whose format the compiler would not take from the table: limits behind it have that."""
    before = f"{op.output}_unlimited"
    built.value(before, built.shapes[op.output][1:], built.formats[op.inputs[0]])  # as a LeakyRelu has it there
    built.unrounded.add(before)
    built.ops.append(write(**{**built.common(op), "output": before}, mode="F32"))
    clip(built, f"{op.name}_limits", before, op.output, bounds)
