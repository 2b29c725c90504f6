"""Options of the ansi_c target, as the recipe writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nnkit.recipe import ByteSize, TargetOptionsBase


class AnsiCOptions(TargetOptionsBase):
    """A library in strict C90 for any microcontroller or host."""

    precision: Literal["float32"] = Field(default="float32", description="What values are computed and stored in.")
    weights: Literal["blob", "arrays"] = Field(
        default="blob",
        description="`blob`: one binary file, little endian, that may lie in external flash and is passed by "
        "reference. `arrays`: the same numbers as a constant array in C.",
    )
    arena: ByteSize | None = Field(
        default=None,
        description="Most bytes of working memory; more ends with exit code 4. `null`: as many as are needed.",
        examples=["64KiB"],
    )
