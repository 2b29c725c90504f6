"""`model.custom_layers`: what the user's own layers of a prototxt compute."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from nnkit.recipe.base import RecipeModel, fault
from nnkit.recipe.types import RecipePath

MAX_SIDE = 65_536

Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]


class CustomLayer(RecipeModel):
    """What a layer of a prototxt that only its author knows computes: an ONNX network, or Python and C."""

    shapes: tuple[tuple[Side, ...], ...] | None = Field(
        default=None,
        description="Shapes of its tops, batch first; `null`: as its `custom_param` says.",
        examples=[[[1, 8, 16, 16]]],
    )
    onnx: RecipePath | None = Field(
        default=None,
        description="An ONNX network: the layer's bottoms are its inputs, its tops the outputs, in order.",
        examples=["layer.onnx"],
    )
    python: RecipePath | None = Field(
        default=None,
        description="A Python file with `function`: float32 arrays in, an array (or a tuple of them) out. It is "
        "executed, only with `--trust`.",
        examples=["layer.py"],
    )
    c: RecipePath | None = Field(
        default=None,
        description="A C90 file with `void function(const float *in0, ..., float *out0, ...)`, for the board; with "
        "`python`.",
        examples=["layer.c"],
    )
    function: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=63)] | None = Field(
        default=None, description="Name of the function in `python` and `c`.", examples=["my_layer"]
    )

    @model_validator(mode="after")
    def _one_definition(self) -> CustomLayer:
        if (self.onnx is None) == (self.python is None):
            raise fault("a layer is defined by `onnx` or by `python`", "write one of the two", ())
        if self.onnx is not None and (self.c is not None or self.function is not None):
            raise fault("`c` and `function` belong to `python`; of `onnx` the C is made", "remove them", ())
        if self.python is not None and self.function is None:
            raise fault("the name of the function is missing", "add `function: NAME`", ())
        return self
