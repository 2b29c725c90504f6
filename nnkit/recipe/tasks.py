"""What the network is for: how its outputs are scored beside plain distances."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nnkit.defaults import FALSE_POSITIVE_RATE
from nnkit.recipe.base import RecipeModel, fault
from nnkit.recipe.types import RecipePath

OutputName = Annotated[str, Field(min_length=1)]


class Classification(RecipeModel):
    """One score a class: agreement with the float network and, with labels, accuracy."""

    kind: Literal["classification"] = Field(description="What the network is for.")
    labels: Literal["parent_folder"] | RecipePath | None = Field(
        default=None,
        description="CSV file of lines `image,class`: the image's file name (or the end of its path) and its class, "
        "a number from 0 or a name; or `parent_folder`: the class of an image is the folder that it is in. `null`: "
        "agreement only.",
        examples=["labels.csv", "parent_folder"],
    )
    classes: RecipePath | None = Field(
        default=None,
        description="Text file with a class's name on each line, in the order of the network's outputs. `null`: "
        "names are numbered in alphabetical order, as torchvision and Keras number folders.",
        examples=["classes.txt"],
    )
    output: OutputName | None = Field(default=None, description="Output with the scores; `null`: the only one.")


class Verification(RecipeModel):
    """A descriptor: are two images of one person (or thing)? Every pair of the verification images is judged."""

    kind: Literal["verification"] = Field(description="What the network is for.")
    identity: Literal["parent_folder"] | None = Field(
        default=None,
        description="`parent_folder`: images in one folder are of one person; all pairs are judged. "
        "`null`: `pairs` says which.",
    )
    pairs: RecipePath | None = Field(
        default=None,
        description="CSV file of lines `first,second,same`: two images' file names (or the ends of their paths) and "
        "1 for the same person, 0 for two.",
        examples=["pairs.csv"],
    )
    metric: Literal["cosine", "l2"] = Field(
        default="cosine", description="How alike two descriptors are: cosine similarity, or Euclidean distance."
    )
    false_positive_rate: float = Field(
        default=FALSE_POSITIVE_RATE,
        gt=0.0,
        lt=1.0,
        description="Share of pairs of two people that may pass, for `recall`.",
    )
    output: OutputName | None = Field(default=None, description="Output with the descriptor; `null`: the only one.")

    @model_validator(mode="after")
    def _one_source(self) -> Verification:
        if (self.identity is None) == (self.pairs is None):
            reason = "both identity and pairs are given" if self.pairs else "neither identity nor pairs is given"
            raise fault(reason, "write identity: parent_folder, or pairs: FILE")
        return self


Pixels = Annotated[float, Field(gt=0.0)]
Stride = Annotated[int, Field(ge=1)]


class AnchorMap(RecipeModel):
    """The anchors of a feature map."""

    stride: Stride | tuple[Stride, Stride] = Field(
        description="Pixels of the network's image from one place of the map to the next; two numbers: down and "
        "across, where the image is no multiple of it (240 rows on a map of 8: 30).",
        examples=[16],
    )
    sides: tuple[Pixels | tuple[Pixels, Pixels], ...] = Field(
        min_length=1,
        description="Sizes of a place's anchors in pixels, in their order: the side of a square, or [width, height].",
        examples=[[16, 32]],
    )


class DetectionHead(RecipeModel):
    """A pair of outputs: boxes and their scores."""

    boxes: OutputName = Field(description="Output with four numbers a box: [4 * anchors, H, W], or [n, 4].")
    scores: OutputName = Field(description="Output with the scores of the same boxes, one a class.")
    anchors: tuple[AnchorMap, ...] = Field(
        default=(),
        description="What the boxes are moves of, map by map in the order of the rows. None: they are corners, as "
        "shares of width and height (0 to 1).",
    )


class DetectionDecode(RecipeModel):
    """How detections are read from a network that gives boxes and scores without a layer that picks among them."""

    heads: tuple[DetectionHead, ...] = Field(min_length=1, description="All pairs of outputs.")
    variances: tuple[float, float] = Field(
        default=(0.1, 0.2),
        description="Factors of an anchor's moves: of its centre, and of the logarithm of its size.",
    )
    centre: float | None = Field(
        default=None,
        description="Pixels from the corner of a map's place to its anchors' centre; `null`: half of the stride.",
    )
    clip_anchors: bool = Field(
        default=False, description="Whether centres and sizes of anchors are limited to the image."
    )
    scores: Literal["anchor_first", "class_first"] = Field(
        default="anchor_first",
        description="Order of the scores' channels in a map: all classes of the first anchor, or all anchors of the "
        "first class.",
    )
    activation: Literal["none", "sigmoid", "softmax"] = Field(
        default="none", description="What makes probabilities of the scores; `none`: the network has done it."
    )
    background: int | None = Field(default=0, ge=0, description="The class that is no detection; `null`: none is.")
    least_score: float = Field(default=0.05, ge=0.0, le=1.0, description="Least score of a box that is looked at.")
    nms: float = Field(
        default=0.45, ge=0.0, le=1.0, description="Overlap from which the weaker of two boxes of a class is dropped."
    )
    keep: int = Field(default=200, ge=1, description="Most detections of an image.")

    @model_validator(mode="after")
    def _one_kind(self) -> DetectionDecode:
        if len({bool(head.anchors) for head in self.heads}) > 1:
            raise fault("some heads have anchors and some have none", "give all of them anchors, or none")
        return self


class Detection(RecipeModel):
    """Rows of detections: mean average precision, and agreement with the float network's detections."""

    kind: Literal["detection"] = Field(description="What the network is for.")
    boxes: RecipePath | None = Field(
        default=None,
        description="CSV file of lines `image,class,x_min,y_min,x_max,y_max`, corners as shares of width and height "
        "(0 to 1). `null`: agreement only.",
        examples=["boxes.csv"],
    )
    overlap: float = Field(
        default=0.5, gt=0.0, le=1.0, description="Least intersection over union at which a detection counts."
    )
    score: float = Field(
        default=0.5,
        ge=0.0,
        le=1.0,
        description="Least score of a float detection that the quantised network has to find, for agreement.",
    )
    output: OutputName | None = Field(
        default=None,
        description="Output with rows of image, class, score, x_min, y_min, x_max, y_max; `null`: the only one, or "
        "what a stage `ssd` or `nms` of `postprocess` makes of boxes and scores.",
    )
    decode: DetectionDecode | None = Field(
        default=None,
        description="How the detections are read from boxes and scores, of a network that has no output of rows.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Detection:
        if self.output is not None and self.decode is not None:
            raise fault("both output and decode are given", "name the outputs in decode alone", ("output",))
        return self


Task = Annotated[Classification | Verification | Detection, Field(discriminator="kind")]
