"""The sections beside the model: tags, calibration, verification, release, target options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nnkit.defaults import HEADROOM, PERCENTILE
from nnkit.recipe.base import RecipeModel, fault
from nnkit.recipe.restructure import RestructureEntry
from nnkit.recipe.tasks import Task
from nnkit.recipe.types import ByteSize, PathGlobs, RecipePath

Glob = Annotated[str, Field(min_length=1)]
AUTO = "auto"


def _globs_for(
    images: Sequence[RecipePath] | Mapping[str, Sequence[RecipePath]] | None, input_name: str
) -> tuple[RecipePath, ...]:
    if isinstance(images, Mapping):
        return tuple(images.get(input_name, ()))
    return tuple(images or ())


class Tags(RecipeModel):
    """Layers treated specially, by globs over the names of the imported layers."""

    hp: tuple[Glob, ...] | Literal["auto"] = Field(
        default=(),
        description="Layers in higher precision (16 bits where the others have 8). `auto` searches the fewest "
        "that pass the gates, or with `budget` the most accurate that it can pay.",
        examples=[["fc_*"]],
    )
    budget: ByteSize | None = Field(
        default=None,
        description="With `hp: auto`: the bytes that the weights of layers in higher precision may take more than "
        "in lower. The search then looks for the most accurate set within it; gates do not guide it.",
        examples=["16KiB"],
    )
    cpu: tuple[Glob, ...] = Field(
        default=(), description="Layers kept on the CPU, away from the NPU.", examples=[["*_permute"]]
    )

    @model_validator(mode="after")
    def _budget_is_used(self) -> Tags:
        if self.budget is not None and self.hp != AUTO:
            raise fault("budget has no effect without hp: auto", "write hp: auto, or remove this line", ("budget",))
        return self


CalibrationMethod = Literal["auto", "max", "percentile", "mse", "kl"]
Correction = Literal[
    "equalize",
    "balance",
    "raise_largest",
    "bias_correction",
    "room_for_unseen",
    "tune_ranges",
    "refine_ranges",
    "adaround",
    "float_inputs",
    "float_outputs",
]


class Calibration(RecipeModel):
    """How observed activations become ranges."""

    method: CalibrationMethod | None = Field(
        default=None,
        description="`max`: the largest magnitude; `percentile`: the range that holds that share of the values; "
        "`mse`: the range with the least squared quantisation error; `kl`: the range that keeps the distribution "
        "best; `auto`: the one of these whose outputs are nearest to the float network's, on held-out "
        "calibration inputs. `null`: the target's own choice, in most cases `max`.",
    )
    percentile: float = Field(
        default=PERCENTILE,
        gt=50.0,
        le=100.0,
        description="Share of values inside the range, in percent, for `percentile` (and where `auto` tries it).",
    )
    headroom: float = Field(
        default=HEADROOM,
        ge=1.0,
        le=16.0,
        description="Factor on the ranges for values that calibration did not see. 16-bit accuracy is limited by "
        "clipping of unseen values, not by resolution.",
    )
    table: RecipePath | None = Field(
        default=None,
        description="A calibration table to use instead of images, perhaps edited.",
        examples=["table.yaml"],
    )
    corrections: tuple[Correction, ...] | None = Field(
        default=None,
        description="What improves quantised weights and ranges, for targets that offer it. `equalize`: channels of "
        "neighbouring layers are scaled to equal widths of their weights; `balance`: channels are scaled so that "
        "all use the range of their tensor; `raise_largest`: the largest weight of a group, which rounding its "
        "scale down would cut, is raised to the next code where that is nearer; `bias_correction`: the shift of a"
        " layer's mean goes off its bias; `room_for_unseen`: ranges of values that were seen in fewer than 10,000"
        " numbers get room for larger ones; `tune_ranges`: ranges that the method made narrower than what was "
        "seen are widened where the layers that read them are better for it; `refine_ranges`: what is added "
        "before a Relu gets no levels for what the Relu cuts off; `adaround`: weights are rounded up or down as "
        "the layer's outputs need; `float_inputs`: small first layers are computed in floating point; "
        "`float_outputs`: small last layers are. One that harms is undone, but for `room_for_unseen`, "
        "`float_inputs` and `float_outputs`, which are not judged. "
        "`null`: the target's own choice.",
        examples=[["balance", "bias_correction", "refine_ranges", "adaround"]],
    )
    judged_on: PathGlobs | Mapping[str, PathGlobs] | None = Field(
        default=None,
        description="Images that judge corrections by the metric of `verify.task`, labelled as its verification "
        "images are, and neither calibrated nor verified on: a path, glob or list; for several inputs one of these "
        "by input name. A correction is kept where that metric is no worse and the outputs are nearer to the float "
        "network. `null`: the outputs alone judge, on held-out calibration images.",
        examples=["judging/*/*.pgm"],
    )
    bad_images: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="Share of the images that may be unreadable; they are reported and left out. 0: none.",
    )

    @model_validator(mode="after")
    def _percentile_is_used(self) -> Calibration:
        default = type(self).model_fields["percentile"].default
        if self.method not in ("percentile", "auto") and self.percentile != default:
            how = f"with method: {self.method}" if self.method is not None else "without a method"
            reason = f"percentile has no effect {how}"
            raise fault(reason, "write method: percentile, or remove this line", ("percentile",))
        return self

    @model_validator(mode="after")
    def _what_is_judged(self) -> Calibration:
        if self.judged_on is not None and self.corrections == ():
            raise fault("judged_on has no effect without corrections", "remove one of the two lines", ("judged_on",))
        return self

    def judging_globs_for(self, input_name: str) -> tuple[RecipePath, ...]:
        """The images of one input that judge corrections; empty where the recipe names none."""
        return _globs_for(self.judged_on, input_name)


class Gates(RecipeModel):
    """Limits that the quantised network must keep; beyond them the run ends with exit code 1."""

    cosine: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Least cosine similarity of the outputs, float against quantised. Of a list of detections it "
        "says nothing, and is refused, as are `sqnr_db` and `max_abs`: gate `detection_agreement`.",
        examples=[0.999],
    )
    sqnr_db: float | None = Field(
        default=None,
        ge=-200.0,
        le=400.0,
        description="Least signal-to-quantisation-noise ratio of the outputs, in dB.",
        examples=[40.0],
    )
    max_abs: float | None = Field(
        default=None, ge=0.0, description="Largest difference of any output value, in real units.", examples=[0.05]
    )

    top1_agreement: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Classification: least share of images with the float network's class.",
    )
    top5_agreement: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Classification: least share of images with the float network's class among the five best.",
    )
    top1_accuracy: float | None = Field(
        default=None, gt=0.0, le=1.0, description="Classification: least share of labelled images classified right."
    )
    top5_accuracy: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Classification: least share of labelled images with the right class among the five best.",
    )
    recall: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Verification: least share of pairs of one person that pass at the task's false-positive rate.",
    )
    verification_accuracy: float | None = Field(
        default=None, gt=0.0, le=1.0, description="Verification: least accuracy over pairs at the best threshold."
    )
    mean_average_precision: float | None = Field(
        default=None, gt=0.0, le=1.0, description="Detection: least mean average precision."
    )
    detection_agreement: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Detection: least share of the float network's detections that are found again.",
    )
    drop: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="The most that any metric of the task may lie below the float network's.",
        examples=[0.01],
    )

    def limits(self) -> dict[str, float]:
        """The gates that are given, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}


class Verify(RecipeModel):
    """What each run verifies on."""

    images: PathGlobs | Mapping[str, PathGlobs] | None = Field(
        default=None,
        description="Images (or `.npy` inputs) that calibration does not use: a path, glob or list; for several "
        "inputs one of these by input name. `null`: the calibration images.",
        examples=["held_out/*.pgm"],
    )
    count: int | None = Field(
        default=None, ge=1, description="How many are used, spread evenly over the list; `null`: all."
    )
    task: Task | None = Field(
        default=None,
        description="What the network is for, to score it by that too; `null`: distances only; but a network "
        "whose output is a list of detections has `{kind: detection}`.",
    )
    gates: Gates = Field(default=Gates(), description="Limits on the difference to the float network.")
    require: tuple[str, ...] = Field(
        default=(),
        description="Runners that must have run the artifact, each where its target is built; a build where one "
        "could not fails as by a gate. Names as in the report's `program_vs_artifact`.",
        examples=["[host, rv32]"],
    )

    def globs_for(self, input_name: str) -> tuple[RecipePath, ...]:
        """The verification images of one input; empty where the recipe names none."""
        return _globs_for(self.images, input_name)


class ReleaseSection(RecipeModel):
    """What the release package says of itself."""

    version: str = Field(
        default="0.0.0",
        pattern=r"^[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}([-+][0-9A-Za-z][0-9A-Za-z.+-]{0,40})?$",
        description="Version of the release, as in semantic versioning.",
        examples=["1.0.0"],
    )
    notes: str | None = Field(
        default=None,
        max_length=20_000,
        description="Text for those who receive the release; `nnkit package inspect` shows it.",
    )
    key: RecipePath | None = Field(
        default=None,
        description="Private Ed25519 key (PEM) that signs package and provenance; `null`: unsigned. "
        "`NNKIT_KEY_PASSWORD` holds its password, if it has one.",
        examples=["release.pem"],
    )


class TargetOptionsBase(RecipeModel):
    """Base of every target's options: what a target may override of the recipe, each section as a whole."""

    restructure: tuple[RestructureEntry, ...] | None = Field(
        default=None,
        description="Rewrite rules and edits for this target, instead of the recipe's.",
        examples=[["fold_batch_norm"]],
    )
    tags: Tags | None = Field(default=None, description="Tags for this target, instead of the recipe's.")
    calibration: Calibration | None = Field(
        default=None, description="Calibration for this target, instead of the recipe's."
    )

    def programs(self) -> tuple[RecipePath, ...]:
        """Programs that these options name and a build runs; they are run only where the user trusts the recipe."""
        return ()
