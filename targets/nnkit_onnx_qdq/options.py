"""Options of the onnx_qdq target, as the recipe writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nnkit.affine_build.options import AffineOptions


class OnnxQdqOptions(AffineOptions):
    """ONNX in QDQ form, for ONNX Runtime and for compilers that read it."""

    precision: Literal["int8", "a16w8", "int16"] = Field(
        default="int8",
        description="Bits of activations and weights: 8 and 8, 16 and 8, or 16 and 16. Layers tagged `hp` have 16 "
        "and 16. With 16 bits anywhere the model is of opset 21.",
    )
