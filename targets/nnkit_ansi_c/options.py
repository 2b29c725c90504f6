"""Options of the ansi_c target, as the recipe writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nnkit.affine_build.options import AffineOptions
from nnkit.recipe import ByteSize, TargetOptionsBase


class AnsiCOptions(TargetOptionsBase):
    """A library in strict C90 for any microcontroller or host."""

    precision: Literal["float32", "int8", "a16w8", "int16"] = Field(
        default="float32",
        description="What values are stored in: `float32`, or integers with scale and zero point, bits of "
        "activations and weights 8 and 8, 16 and 8, or 16 and 16. Of integers, layers tagged `hp` have 16 and 16.",
    )
    weights: Literal["blob", "arrays"] = Field(
        default="blob",
        description="`blob`: one binary file, little endian, that may lie in external flash and is passed by "
        "reference. `arrays`: the same numbers as a constant array in C.",
    )
    inputs: Literal["caller", "arena"] = Field(
        default="caller",
        description="Of float32. `caller`: inputs are arrays of the caller, which stay as they are. `arena`: they "
        "are written into the arena before each run, which takes their memory over once they are read.",
    )
    arena: ByteSize | None = Field(
        default=None,
        description="Most bytes of working memory; more ends with exit code 4. `null`: as many as are needed.",
        examples=["64KiB"],
    )
    stripes: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="In how many stripes of rows the first layers are computed, so that their maps need "
        "not be whole in memory; rows that two stripes need are computed twice. `null`: 1, or as many as `arena` "
        "needs.",
    )
    symmetric_activations: bool | None = Field(
        default=None,
        description="Of integers: signed ones around zero, or unsigned ones with a zero point. `null`: signed where "
        "values have 16 bits (`precision`), else unsigned, which resolve twice as finely what a Relu leaves.",
    )
    adaround_steps: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Of integers: steps of gradient descent a layer of the correction `adaround`, where it is asked "
        "for, before weights are flipped one by one. 0: flips alone.",
    )
    correction_images: int = Field(
        default=64,
        ge=2,
        le=10_000,
        description="Of integers: calibration images that corrections measure on; a quarter of them judges.",
    )

    @property
    def affine(self) -> AffineOptions:
        """What the quantiser is told, where values are integers."""
        wide = self.precision in ("a16w8", "int16")
        return AffineOptions(
            precision="int8" if self.precision == "float32" else self.precision,
            symmetric_activations=wide if self.symmetric_activations is None else self.symmetric_activations,
            adaround_steps=self.adaround_steps,
            correction_images=self.correction_images,
        )
