"""Options of the tpu target, as the recipe writes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from nnkit.recipe import RecipeModel, RecipePath, TargetOptionsBase
from nnkit.recipe.base import fault
from nnkit_tpu.chips import CV_CHIPS

ChipName = Literal["bm1684x", "bm1688", "cv183x", "cv182x", "cv181x", "cv180x"]


class LayerGroupBudget(RecipeModel):
    """How long `layer_group: measured` may look for better groups, in compilations."""

    groups: int = Field(default=24, ge=0, le=1000, description="Groups that are measured alone.")
    steps: int = Field(default=16, ge=0, le=1000, description="Steps of improvement.")
    orders: int = Field(default=3, ge=0, le=100, description="Other orders of the layers.")


class PixelOptions(RecipeModel):
    """The pixels that a model with `fuse_preprocess` takes, as a camera or a decoder gives them."""

    color: Literal["rgb", "bgr"] | None = Field(
        default=None, description="Order of the channels; `null`: the network's own. The chip brings them in order."
    )
    layout: Literal["planar", "packed"] = Field(
        default="planar",
        description="`planar`: one channel after the other, [1, C, H, W]; `packed`: pixel by pixel, [1, H, W, C].",
    )


class TpuOptions(TargetOptionsBase):
    """Sophgo TPU: bmodel or cvimodel by the vendor's compiler, run on its chip model."""

    chip: ChipName = Field(description="The chip the network is for.", examples=["bm1684x"])
    precision: Literal["int8", "f16", "bf16"] = Field(
        default="int8",
        description="The precision of the whole network. In `int8`, layers tagged `hp` and layers without an INT8 "
        "form run in F16 (BF16 on the cv18xx).",
    )
    quant_input: bool = Field(
        default=False, description="The model takes stored 8-bit integers instead of float32 (`int8` only)."
    )
    quant_output: bool = Field(
        default=False, description="The model gives stored 8-bit integers instead of float32 (`int8` only)."
    )
    fuse_preprocess: bool = Field(
        default=False,
        description="The model takes pixels of 8 bits: order of colours, mean and scale of `preprocess` are computed "
        "on the chip. Crop, mirror and resize are not.",
    )
    pixels: PixelOptions = Field(
        default=PixelOptions(), description="The pixels that the model takes, with `fuse_preprocess`."
    )
    cores: Literal[1, 2] = Field(default=1, description="Cores that share the network; 2 on the bm1688 only.")
    layer_group: Literal["vendor", "ours", "measured", "quick"] = Field(
        default="ours",
        description="Who groups layers in local memory. `ours`: nnkit's plan, or the compiler's own where its "
        "simulator finds that one better; `measured`: also what lies around them, each tried; `vendor`: the "
        "compiler alone; `quick`: the compiler without its search, as many layers to a group as fit, for builds "
        "while accuracy is tried: the values are the same, the model is slower.",
    )
    budget: LayerGroupBudget = Field(
        default=LayerGroupBudget(), description="How long `layer_group: measured` may look."
    )
    toolchain: Literal["managed", "path"] = Field(
        default="managed",
        description="The compiler that `nnkit doctor --install tpu` installed, or the `tpuc-opt` on PATH.",
    )
    batch: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Images that the model takes at a time. Each is computed as it is alone.",
    )
    model_version: Literal["latest", "1.4", "1.3", "1.2"] = Field(
        default="latest",
        description="Version of the model file on the cv18xx, for a board whose runtime refuses newer ones.",
    )
    combine: tuple[RecipePath, ...] = Field(
        default=(),
        description="Models of other builds for the same BM chip: `combined.bmodel` then holds their networks beside "
        "this one, and the chip's own program once.",
        examples=[["../detector/out/detector/tpu/artifact/net.bmodel"]],
    )
    compiler_timeout_s: float = Field(
        default=900.0,
        gt=0.0,
        description="Seconds that one run of the compiler may take. Where its search for groups takes longer, groups "
        "of as many layers as fit stand in for its own.",
    )
    trace: bool = Field(
        default=True,
        description="Also compile a model that gives every inner value, by which each layer is compared on the chip "
        "model.",
    )

    @model_validator(mode="after")
    def _fits_the_chip(self) -> TpuOptions:
        if self.chip in CV_CHIPS and self.precision == "f16":
            raise fault(f"{self.chip} has no F16", "write precision: bf16 or int8", ("precision",))
        if self.precision != "int8" and (self.quant_input or self.quant_output):
            raise fault("only INT8 networks have stored integers", "remove quant_input and quant_output", ())
        if self.fuse_preprocess and self.quant_input:
            reason = "with fuse_preprocess the inputs are pixels, which are stored integers already"
            raise fault(reason, "remove quant_input", ("quant_input",))
        if self.pixels != PixelOptions() and not self.fuse_preprocess:
            raise fault("`pixels` is of models with fuse_preprocess", "add fuse_preprocess: true", ("pixels",))
        if self.cores > 1 and self.chip != "bm1688":
            raise fault(f"{self.chip} has one core", "write cores: 1", ("cores",))
        if self.model_version != "latest" and self.chip not in CV_CHIPS:
            raise fault("a bmodel has one version", "remove this line", ("model_version",))
        if self.combine and self.chip in CV_CHIPS:
            raise fault("cvimodels hold one network", "remove this line, and register each model alone", ("combine",))
        return self
