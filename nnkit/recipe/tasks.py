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
    labels: RecipePath | None = Field(
        default=None,
        description="CSV file of lines `image,class`: the image's file name (or the end of its path) and its class "
        "number, from 0. `null`: agreement only.",
        examples=["labels.csv"],
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
        description="Output with rows of image, class, score, x_min, y_min, x_max, y_max; `null`: the only one.",
    )


Task = Annotated[Classification | Verification | Detection, Field(discriminator="kind")]
