"""Options of the ansi_c target, as the recipe writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from nnkit.affine_build.options import AffineOptions
from nnkit.recipe import ByteSize, RecipeModel, TargetOptionsBase, fault


class MemoryRegion(RecipeModel):
    """A memory of the machine, of one size and speed."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,30}$", description="As the C names it.", examples=["dtcm", "axi_sram", "qspi"]
    )
    size: ByteSize = Field(description="Bytes of it that the network may have.", examples=["64KiB"])
    cycles: float = Field(
        ge=0.0,
        le=1000.0,
        description="Cycles of an access of 4 bytes; only how they compare matters.",
        examples=[1, 2.5, 20],
    )
    holds: Literal["values", "weights"] = Field(
        default="values",
        description="Working memory, or weights. A memory that holds both is written twice, its size divided.",
    )


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
    regions: tuple[MemoryRegion, ...] = Field(
        default=(),
        description="Several memories, such as an STM32H7's DTCM, AXI SRAM and external flash. Values "
        "and weights that are used most go to the fastest; the C takes a pointer for each. Empty: one arena and one "
        "file of weights.",
        examples=[[{"name": "dtcm", "size": "64KiB", "cycles": 1}, {"name": "axi", "size": "256KiB", "cycles": 3}]],
    )
    stripes: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="In how many stripes of rows the first layers are computed, so that their maps need "
        "not be whole in memory; rows that two stripes need are computed twice. `null`: 1, or as many as `arena` "
        "or `regions` need.",
    )
    clock_mhz: float | None = Field(
        default=None,
        gt=0.0,
        le=10_000.0,
        description="Clock of the processor, for estimated milliseconds; nothing else depends on it. `null`: 168 MHz "
        "for the Cortex-M4, 108 MHz for rv32imac.",
        examples=[80],
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

    @model_validator(mode="after")
    def _regions(self) -> AnsiCOptions:
        if not self.regions:
            return self
        names = [region.name for region in self.regions]
        if self.inputs == "arena":
            raise fault("there are both `inputs: arena` and `regions`", "remove inputs", ("inputs",))
        if len(set(names)) < len(names) or {"arena", "caller"} & set(names):
            raise fault(
                "two regions have one name, or one is called arena or caller", "name each its own", ("regions",)
            )
        if self.arena is not None and any(region.holds == "values" for region in self.regions):
            raise fault("there are both `arena` and `regions` for values", "remove arena", ("arena",))
        return self

    @property
    def affine(self) -> AffineOptions:
        """The options of the quantiser, where values are integers."""
        wide = self.precision in ("a16w8", "int16")
        return AffineOptions(
            precision="int8" if self.precision == "float32" else self.precision,
            symmetric_activations=wide if self.symmetric_activations is None else self.symmetric_activations,
            adaround_steps=self.adaround_steps,
            correction_images=self.correction_images,
        )
