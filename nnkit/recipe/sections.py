"""The sections beside the model: tags, calibration, CPU stages, verification, release, target options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nnkit.defaults import HEADROOM, PERCENTILE
from nnkit.recipe.base import RecipeModel, fault
from nnkit.recipe.restructure import RestructureEntry
from nnkit.recipe.tasks import Task
from nnkit.recipe.types import ByteSize, PathGlobs, RecipePath

Glob = Annotated[str, Field(min_length=1)]
AUTO = "auto"


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
Correction = Literal["equalize", "balance", "bias_correction", "refine_ranges", "adaround"]


class Calibration(RecipeModel):
    """How observed activations become ranges."""

    method: CalibrationMethod | None = Field(
        default=None,
        description="`max`: the largest magnitude; `percentile`: the range that holds that share of the values; "
        "`mse`: the range with the least squared quantisation error; `kl`: the range that keeps the distribution "
        "best; `auto`: the one of these whose outputs are nearest to the float network's, on calibration inputs kept "
        "aside. `null`: the target's own choice, in most cases `max`.",
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
        description="What improves quantised weights, for targets that offer it. `equalize`: channels of "
        "neighbouring layers are scaled to equal widths of their weights; `balance`: channels are scaled so that all "
        "use the range of their tensor; `bias_correction`: the shift of a layer's mean goes off its bias; "
        "`refine_ranges`: what is added before a Relu gets no levels for what the Relu cuts off; `adaround`: weights "
        "are rounded up or down as the layer's outputs need. One that harms is undone. `null`: the "
        "target's own choice.",
        examples=[["balance", "bias_correction", "refine_ranges", "adaround"]],
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


CropSide = Annotated[int, Field(ge=1, le=1024)]
FrameSide = Annotated[int, Field(ge=1, le=16_384)]
MapSide = Annotated[int, Field(ge=1, le=16_384)]


class FaceCrop(RecipeModel):
    """CPU stage before the network: camera frame and detector box to the square gray input, aspect preserved."""

    kind: Literal["face_crop"] = Field(description="What this stage is.")
    size: tuple[CropSide, CropSide] = Field(
        description="Height and width of the network's input, which is square.", examples=[[128, 128]]
    )
    frame: tuple[FrameSide, FrameSide] | None = Field(
        default=None,
        description="Height and width of the largest camera frame, for those who integrate the release; `null`: "
        "not said.",
        examples=[[240, 320]],
    )
    border: Literal["replicate", "fill"] = Field(
        default="replicate", description="What a pixel outside the frame reads: the nearest one inside, or `fill`."
    )
    fill: int = Field(default=0, ge=0, le=255, description="Gray level for `border: fill`.")
    input: str | None = Field(default=None, description="Input that it feeds; `null`: the only one.")

    @model_validator(mode="after")
    def _square(self) -> FaceCrop:
        height, width = self.size
        if height != width:
            reason = f"the crop is square, but size is {list(self.size)}"
            raise fault(reason, f"write size: {[max(self.size)] * 2}", ("size",))
        return self


class DescriptorMatch(RecipeModel):
    """CPU stage after the network: nearest descriptor of a gallery, or unknown."""

    kind: Literal["match"] = Field(description="What this stage is.")
    threshold: float = Field(
        ge=0.0,
        description="Largest distance (not squared) at which two descriptors match, in the real units of what is "
        "compared.",
        examples=[10.5],
    )
    metric: Literal["l2"] = Field(default="l2", description="`l2`: Euclidean distance.")
    normalize: bool = Field(default=False, description="Scale descriptors to unit length before they are compared.")
    capacity: int = Field(default=16, ge=1, le=65_536, description="Most descriptors that the gallery can hold.")
    output: str | None = Field(default=None, description="Output that holds the descriptor; `null`: the only one.")


class PcaCombine(RecipeModel):
    """CPU stage after the network: one feature from the two halves of a face that ran split_full_face_pca."""

    kind: Literal["pca_combine"] = Field(description="What this stage is.")
    components: int = Field(
        ge=1, le=1 << 20, description="Components of the projection: columns of the PCA's matrix.", examples=[512]
    )
    outputs: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="The outputs that hold a half's values, in order; `null`: all.",
        examples=[["pca_0", "pca_1"]],
    )


class SsdPriors(RecipeModel):
    """The default boxes of one feature map of an SSD, as Caffe's PriorBox makes them."""

    map: tuple[MapSide, MapSide] = Field(description="Height and width of the feature map.", examples=[[19, 19]])
    min_size: tuple[float, ...] = Field(min_length=1, description="Sides of squares in pixels of the image.")
    max_size: tuple[float, ...] = Field(
        default=(), description="With each min_size another square of side sqrt(min_size * max_size)."
    )
    aspect_ratio: tuple[float, ...] = Field(default=(), description="Width over height of further boxes.")
    flip: bool = Field(default=True, description="After each aspect ratio also its reciprocal.")
    clip: bool = Field(default=False, description="End the default boxes at the edges of the image.")
    step: float = Field(default=0.0, ge=0.0, description="Distance of boxes in pixels; 0: image size / map size.")
    offset: float = Field(default=0.5, description="Of the first centre, in steps.")


class Ssd(RecipeModel):
    """CPU stage after the network: locations and confidences of an SSD to detections."""

    kind: Literal["ssd"] = Field(description="What this stage is.")
    location: str = Field(description="Output with the locations, 4 for each default box.")
    confidence: str = Field(description="Output with the scores, one for each default box and class.")
    image: tuple[MapSide, MapSide] = Field(
        description="Height and width of the network's input.", examples=[[300, 300]]
    )
    priors: tuple[SsdPriors, ...] = Field(min_length=1, description="Default boxes of each feature map, in order.")
    code_type: Literal["center_size", "corner", "corner_size"] = Field(
        default="center_size", description="What a location moves: centre and sides, or corners (in sides)."
    )
    variance: tuple[float, float, float, float] = Field(
        default=(0.1, 0.1, 0.2, 0.2), description="What a location of 1 stands for, by coordinate."
    )
    variance_encoded_in_target: bool = Field(default=False, description="Locations have the variances in them.")
    share_location: bool = Field(default=True, description="One box for all classes.")
    background: int | None = Field(default=0, ge=0, description="Class that is left out; `null`: none.")
    confidence_threshold: float = Field(default=0.3, description="Boxes count whose score is above it.")
    nms_threshold: float = Field(default=0.45, ge=0.0, le=1.0, description="Largest overlap of two that stay.")
    eta: float = Field(default=1.0, gt=0.0, le=1.0, description="Lowers the threshold after each that stays.")
    top_k: int | None = Field(default=400, ge=1, description="Most boxes of a class that are looked at; `null`: all.")
    keep_top_k: int = Field(default=100, ge=1, le=1 << 16, description="Most detections in all.")
    clip: bool = Field(default=False, description="End boxes at the edges of the image.")


class Nms(RecipeModel):
    """CPU stage after the network: boxes and scores to detections, as ONNX's NonMaxSuppression."""

    kind: Literal["nms"] = Field(description="What this stage is.")
    boxes: str = Field(description="Output with the boxes, 4 values each.")
    scores: str = Field(description="Output with the scores, [boxes, classes] or [classes, boxes].")
    format: Literal["corners", "center"] = Field(
        default="corners", description="x_min, y_min, x_max, y_max, or the centre with width and height."
    )
    image: tuple[float, float] = Field(
        default=(1.0, 1.0), description="Height and width of the image in units of the boxes; 1 and 1: fractions."
    )
    background: int | None = Field(default=None, ge=0, description="Class that is left out; `null`: none.")
    score_threshold: float = Field(default=0.3, description="Boxes count whose score is above it.")
    iou_threshold: float = Field(default=0.45, ge=0.0, le=1.0, description="Largest overlap of two that stay.")
    top_k: int | None = Field(default=400, ge=1, description="Most boxes of a class that are looked at; `null`: all.")
    keep: int = Field(default=100, ge=1, le=1 << 16, description="Most detections in all.")
    clip: bool = Field(default=False, description="End boxes at the edges of the image.")


class _OfRows(RecipeModel):
    output: str | None = Field(default=None, description="Output that it reads; `null`: the only one.")
    classes: int | None = Field(
        default=None, ge=1, description="Values of a row; `null`: those of the output's last dimension."
    )


class Softmax(_OfRows):
    """CPU stage after the network: probabilities of each row, in float32."""

    kind: Literal["softmax"] = Field(description="What this stage is.")


class ArgMax(_OfRows):
    """CPU stage after the network: the index of each row's largest value."""

    kind: Literal["argmax"] = Field(description="What this stage is.")


class TopK(_OfRows):
    """CPU stage after the network: the indices of each row's largest values."""

    kind: Literal["topk"] = Field(description="What this stage is.")
    k: int = Field(ge=1, description="How many.", examples=[5])


class L2Normalize(_OfRows):
    """CPU stage after the network: each row at length 1, in float32."""

    kind: Literal["l2_normalize"] = Field(description="What this stage is.")


CpuStage = Annotated[
    FaceCrop | DescriptorMatch | PcaCombine | Ssd | Nms | Softmax | ArgMax | TopK | L2Normalize,
    Field(discriminator="kind"),
]


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
        if isinstance(self.images, Mapping):
            return self.images.get(input_name, ())
        return self.images or ()


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
        description="Private key (PEM) for a detached signature; `null`: unsigned.",
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
