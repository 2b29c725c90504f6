"""The recipe's words for what the CPU does before and behind the network: `postprocess`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nnkit.recipe.base import RecipeModel, fault

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


class YoloMap(RecipeModel):
    """One map of a YOLO network: the grid of cells that its rows are of."""

    output: str = Field(description="Output with the rows; rows of several maps in one output follow one another.")
    map: tuple[MapSide, MapSide] = Field(description="Height and width in cells.", examples=[[13, 13]])
    anchors: tuple[tuple[float, float], ...] = Field(
        default=(),
        description="Width and height of each anchor in pixels of the image; with `code: x` there are none.",
        examples=[[[10, 14], [23, 27], [37, 58]]],
    )


class Yolo(RecipeModel):
    """CPU stage after the network: rows of 4 box values, objectness and classes to detections."""

    kind: Literal["yolo"] = Field(description="What this stage is.")
    code: Literal["v3", "v5", "x"] = Field(
        description="How boxes are written: as YOLOv3 and v4, as YOLOv5 and v7, or as YOLOX."
    )
    image: tuple[MapSide, MapSide] = Field(
        description="Height and width of the network's input.", examples=[[416, 416]]
    )
    heads: tuple[YoloMap, ...] = Field(min_length=1, description="The maps, in order.")
    order: Literal["anchors", "cells"] = Field(
        default="anchors",
        description="What comes first in the rows: all cells of an anchor, or all anchors of a cell.",
    )
    activated: bool = Field(default=False, description="The logistic functions are in the network already.")
    scale_xy: float | None = Field(
        default=None,
        ge=1.0,
        le=4.0,
        description="How far a centre reaches, in cells around its own; `null`: 1 for v3, 2 for v5.",
    )
    score_threshold: float = Field(default=0.3, ge=0.0, le=1.0, description="Scores count that are above it.")
    iou_threshold: float = Field(
        default=0.45, ge=0.0, le=1.0, description="Largest overlap of two of a class that stay."
    )
    top_k: int = Field(default=400, ge=1, le=1 << 16, description="Most rows and classes that are looked at.")
    keep: int = Field(default=100, ge=1, le=1 << 16, description="Most detections in all.")
    clip: bool = Field(default=False, description="End boxes at the edges of the image.")

    @model_validator(mode="after")
    def _anchors(self) -> Yolo:
        for index, head in enumerate(self.heads):
            at = ("heads", index, "anchors")
            if self.code == "x" and head.anchors:
                raise fault("`code: x` has no anchors", "remove anchors, or write code: v3 or v5", at)
            if self.code != "x" and not head.anchors:
                raise fault(f"`code: {self.code}` needs anchors", "write [[width, height], ...] in pixels", at)
        if self.code == "x" and self.scale_xy is not None:
            raise fault("`code: x` has no scale_xy", "remove it", ("scale_xy",))
        return self


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
    FaceCrop | DescriptorMatch | PcaCombine | Ssd | Nms | Yolo | Softmax | ArgMax | TopK | L2Normalize,
    Field(discriminator="kind"),
]
