"""Options of the nnie target, as the recipe writes them. Defaults are the mapper's, where it has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nnkit.recipe import RecipeModel, RecipePath, TargetOptionsBase
from nnkit.recipe.base import fault
from nnkit_nnie.chips import ChipName

CompileMode = Literal[0, 1, 2]
JoinSegments = Literal["none", "small", "any"]
ImageType = Literal["auto", "vector", "u8", "yvu420sp", "yvu422sp"]

MIXED: CompileMode = 2
IMAGE_TYPE_NUMBERS: Mapping[str, int] = {"vector": 0, "u8": 1, "yvu420sp": 3, "yvu422sp": 5}


class Mapper(RecipeModel):
    """The vendor's compiler, where it is at hand."""

    path: RecipePath | None = Field(
        default=None,
        description="The program, run only with `--trust`; `null`: `nnie_mapper_11` or `nnie_mapper_12` (as the chip "
        "needs), of the user's configuration or on PATH.",
        examples=["tools/nnie_mapper_12"],
    )
    timeout_s: float = Field(default=3600.0, gt=0.0, description="Seconds after which a run counts as hung.")
    run: bool = Field(default=True, description="Whether a build runs it where it is found.")


class NnieInput(RecipeModel):
    """How the board delivers one input."""

    image_type: ImageType = Field(
        default="auto",
        description="`u8`: planar 8-bit pixels; `yvu420sp`, `yvu422sp`: camera frames; `vector`: 32-bit numbers, to "
        "which what feeds the board has applied the recipe's mean and scale. `auto`: `u8` for inputs made from "
        "images, else `vector`.",
    )


class NnieOptions(TargetOptionsBase):
    """HiSilicon NNIE: Caffe network, mapper cfg, functional simulation, CPU segments."""

    chip: ChipName = Field(description="The chip the network is for.", examples=["hi3516cv500"])
    compile_mode: CompileMode = Field(
        default=0,
        description="As in the mapper's cfg: 0: 8 bits (low bandwidth); 1: 16 bits (high precision); 2: 8 bits, and "
        "16 for the layers tagged `hp`.",
    )
    inputs: Mapping[str, NnieInput] = Field(
        default_factory=dict, description="How the board delivers inputs, by input name; those not named: `auto`."
    )
    custom: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="Layers (globs over names) that are written as Custom and run in a CPU segment, even where the "
        "mapper knows their type.",
        examples=[["mbox_*"]],
    )
    outside_limits: Literal["refuse", "custom"] = Field(
        default="refuse",
        description="What becomes of a layer outside the NNIE's limits: the build is refused, or the layer is "
        "written as Custom and runs in a CPU segment.",
    )
    join_segments: JoinSegments = Field(
        default="small",
        description="Which layers of the NNIE may move to the CPU, so that a network of more than 8 segments has 8: "
        "`small`: those of segments behind the first, where all that move have at most a tenth of the NNIE's "
        "multiply-accumulates; `any`: as many as it takes; `none`.",
    )
    batch_num: int = Field(default=256, ge=0, le=256, description="Frames that one call may hold; 0 and 1: one.")
    sparse_rate: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of the fully connected weights that the mapper sets to zero."
    )
    compress_mode: Literal["normal", "bypass"] = Field(default="normal", description="Compression of the weights.")
    max_roi_frame_cnt: int = Field(default=300, ge=1, le=5000, description="Most regions of interest in a frame.")
    roi_coordinate_files: tuple[RecipePath, ...] = Field(
        default=(),
        description="For ROI layers without a Proposal: one file each, in the order of the network, with lines "
        "`batch x0 y0 x1 y1`.",
        examples=[["rois.txt"]],
    )
    is_simulation: bool = Field(default=False, description="Compile for the PC's functional simulator, not the chip.")
    instruction_name: str = Field(
        default="inst",
        min_length=1,
        max_length=119,
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="File name of the compiled network, without `.wk`.",
    )
    internal_stride: Literal[16, 32] = Field(default=16, description="16 for DDR3 memory, 32 for DDR4.")
    log_level: int = Field(default=2, ge=0, le=3, description="Verbosity of the mapper; from 2 on it leaves dumps.")
    recurrent_tmax: int = Field(default=1024, ge=1, le=1024, description="Most steps of a recurrent layer.")
    gfpq_param_file: RecipePath | None = Field(
        default=None, description="Quantisation parameters for mappers that read them.", examples=["gfpq.txt"]
    )
    split_at_warp: bool = Field(
        default=True,
        description="A network with a spatial transformer (one WarpPerspective) becomes two, STN and NET, each "
        "compiled by itself, and the CPU warps between them; `false`: one network, in which the warp is Custom.",
    )
    net_calibration: Literal["float", "simulated"] = Field(
        default="float",
        description="What aligns the images that NET is calibrated on: the STN in float, or as the NNIE computes it.",
    )
    image_list: Literal["copy", "reference"] = Field(
        default="copy",
        description="Calibration images for the mapper: copied into the artifact as the network reads them, or their "
        "files named where they are.",
    )
    image_count: int = Field(default=30, ge=1, le=1000, description="Images for the mapper; 20 to 50 are usual.")
    mean_file: Literal["text", "binaryproto"] = Field(
        default="text",
        description="Form of the mean: `text` has one value per channel; `binaryproto` one per pixel.",
    )
    precision_table: bool = Field(
        default=True, description="Whether a run measures the usual choices of 16-bit layers side by side."
    )
    mapper: Mapper = Field(default=Mapper(), description="The vendor's compiler.")

    def programs(self) -> tuple[RecipePath, ...]:
        """The mapper, where the recipe names one and a build runs it."""
        return (self.mapper.path,) if self.mapper.path is not None and self.mapper.run else ()

    @model_validator(mode="after")
    def _hp_has_an_effect(self) -> NnieOptions:
        if self.tags is not None and self.tags.hp and self.compile_mode != MIXED:
            reason = f"tags.hp has no effect with compile_mode: {self.compile_mode}, and the mapper refuses it"
            raise fault(reason, "write compile_mode: 2, or remove tags.hp", ("tags", "hp"))
        return self
