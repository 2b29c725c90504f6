"""What a recipe may choose of affine integers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nnkit.calibrate.methods import Method
from nnkit.recipe import TargetOptionsBase


class AffineOptions(TargetOptionsBase):
    """Affine integers; a target offers all of it to its recipes, or makes one of its own options."""

    precision: Literal["int8", "a16w8", "int16"] = Field(
        default="int8",
        description="Bits of activations and weights: 8 and 8, 16 and 8, or 16 and 16. Layers tagged `hp` have 16 "
        "and 16.",
    )
    weights: Literal["per_channel", "per_tensor"] = Field(
        default="per_channel", description="One weight scale for each output channel, or one for the whole layer."
    )
    weight_method: Method = Field(
        default="mse", description="How the range of weights is chosen, by the words of `calibration.method`."
    )
    symmetric_weights: bool = Field(
        default=True, description="Weights around zero (8 bits: -127 to 127); otherwise with a zero point."
    )
    symmetric_activations: bool = Field(
        default=False, description="Signed activations around zero; otherwise unsigned with a zero point."
    )
    adaround_steps: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Steps of gradient descent a layer of the correction `adaround`, where it is asked for, before "
        "weights are flipped one by one. 0: flips alone, which take seconds and are mostly as good. The search is "
        "deterministic: there is no seed to choose.",
    )
    adaround_seconds: float | None = Field(
        default=None,
        gt=0.0,
        description="Most seconds that `adaround` may take in all; layers it does not reach are rounded to the "
        "nearest. `null`: no limit, and the same result on every machine.",
    )
    correction_images: int = Field(
        default=64,
        ge=2,
        le=10_000,
        description="Calibration images that corrections measure on; a quarter of them judges, the others are "
        "measured. All of them are measured on in the end.",
    )
