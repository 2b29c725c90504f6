"""The stages of a `face_match` pipeline with what only the programs know: sizes, formats, and what survives.

A frame is shrunk to the detector's input; the detector's outputs become detections, best first; of each of the first
`faces` the box in pixels of the frame is

    low = ((b + 16384) * side + 8192) // 16384 - side,    size = high - low,

b a coordinate with 14 fraction bits, side the frame's width or height; it is cropped to the descriptor's input, and
the descriptor is matched with the gallery. A box that is empty or has no pixel of the frame is
reported, and left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnkit.errors import RecipeError
from nnkit.memory.joint_plan import Stage, Survivor
from nnkit.postprocess import Box, DescriptorMatch, Detected, Detections, FaceCrop, Shrink
from nnkit.postprocess.boxes import ONE
from nnkit.postprocess.from_recipe import check_raw_pixels, stages_of
from nnkit.program import Fixed, Program

if TYPE_CHECKING:
    from nnkit.recipe import Recipe
    from nnkit.recipe.cpu_stages import CpuStage
    from nnkit.recipe.deployment import DeploymentRecipe

_ALIGN = 4
_RESULT_BYTES = 10 * 4
_MATCH_BYTES = 4 * 4


@dataclass(frozen=True)
class FaceMatchStages:
    """detector, descriptor: names of the networks. image: the detector's input, boxes and scores its outputs;
    face: the descriptor's input, description its output. frame: height and width. network: a number of the
    descriptor's program, which galleries of another one do not have."""

    detector: str
    descriptor: str
    image: str
    boxes: str
    scores: str
    face: str
    description: str
    frame: tuple[int, int]
    shrink: Shrink
    detect: Detections
    crop: FaceCrop
    match: DescriptorMatch
    faces: int
    name_bytes: int
    network: int

    NAMES = ("shrink", "detector", "detect", "crop", "descriptor", "match")
    """The stages, networks among them, in the order in which they run."""

    def order(self) -> tuple[str | Stage, ...]:
        """Networks and stages as they run; from `crop` on once for each face."""
        outputs = tuple(dict.fromkeys((f"{self.detector}/{self.boxes}", f"{self.detector}/{self.scores}")))
        return (
            Stage("shrink", ("frame",), (f"{self.detector}/{self.image}",)),
            self.detector,
            Stage("detect", outputs, ("detections", "results")),
            Stage("crop", ("frame", "detections", "crop_lines"), (f"{self.descriptor}/{self.face}", "results")),
            self.descriptor,
            Stage("match", (f"{self.descriptor}/{self.description}", "people"), ("results", "matched")),
        )

    def survivors(self) -> tuple[Survivor, ...]:
        """What lives between the stages, and what they work with."""
        height, width = self.frame
        return (
            Survivor("people", "activation", self.people_bytes),
            Survivor("frame", "activation", height * width, ("shrink", "match")),
            Survivor("detections", "activation", self.detect.working_bytes, ("detect", "match")),
            Survivor("results", "activation", self.results_bytes, ("detect", "match")),
            Survivor("crop_lines", "scratch", self.crop_bytes, ("crop",)),
            Survivor("matched", "scratch", self.matched_bytes, ("match",)),
        )

    @property
    def people_bytes(self) -> int:
        """Bytes of the gallery with its names."""
        entries = self.match.capacity * self.match.length * self.value_bytes
        return _up(4 + entries + self.match.capacity * self.name_bytes)

    @property
    def value_bytes(self) -> int:
        """Bytes of one value of a descriptor as it is compared."""
        return 2 if self.match.normalize else self.match.numbers.bits // 8

    @property
    def results_bytes(self) -> int:
        """Bytes of what a frame gives."""
        return 4 + self.faces * _RESULT_BYTES

    @property
    def crop_bytes(self) -> int:
        """Bytes that one crop works in."""
        return 8 * self.crop.size + 12

    @property
    def matched_bytes(self) -> int:
        """Bytes that one match works in."""
        return _up(_MATCH_BYTES + (2 * self.match.length if self.match.normalize else 0))

    @property
    def store_bytes(self) -> int:
        """Bytes of a slot of the store, with every place of the gallery taken."""
        return 40 + self.match.capacity * (self.name_bytes + self.match.length * self.value_bytes)

    def box(self, detecting: Detected) -> Box:
        """A detection in pixels of the frame."""
        height, width = self.frame
        x_min, y_min, x_max, y_max = detecting.box
        left, right = (_pixel(each, width) for each in (x_min, x_max))
        top, bottom = (_pixel(each, height) for each in (y_min, y_max))
        return Box(left, top, right - left, bottom - top)


def face_match_of(
    recipe: DeploymentRecipe,
    recipes: Mapping[str, Recipe],
    programs: Mapping[str, Program],
    codes: Mapping[str, bytes],
) -> FaceMatchStages | None:
    """The stages that the recipes ask for; None: no pipeline.

    recipes, programs: of the networks, by name. codes: the bytes of each program.
    Raises RecipeError where a network's recipe lacks a stage, or the sizes do not go together.
    """
    pipeline = recipe.deployment.pipeline
    if pipeline is None:
        return None
    detector, descriptor = pipeline.detector, pipeline.descriptor
    at = ("deployment", "pipeline")
    detecting = _stages(recipes[detector], programs[detector])
    described = _stages(recipes[descriptor], programs[descriptor])
    written, detect = _one(detecting, Detections, recipe, (*at, "detector"), "`ssd` or `nms`")
    names = (written.location, written.confidence) if written.kind == "ssd" else (written.boxes, written.scores)
    faces = detect.classes - (0 <= detect.background < detect.classes)
    if faces != 1:
        raise RecipeError(
            f"the detector tells {faces} classes apart",
            where=recipe.where(*at, "detector"),
            remedy="name one that finds faces alone",
        )
    crop_written, crop = _one(described, FaceCrop, recipe, (*at, "descriptor"), "`face_crop`")
    match_written, match = _one(described, DescriptorMatch, recipe, (*at, "descriptor"), "`match`")
    image = _only_input(programs[detector], recipe, (*at, "detector"))
    place = recipes[detector].where("model", "inputs")
    check_raw_pixels(recipes[detector], programs[detector].tensors[image], place, "the pipeline")
    return FaceMatchStages(
        detector,
        descriptor,
        image,
        names[0],
        names[1],
        crop_written.input or programs[descriptor].inputs[0],
        match_written.output or programs[descriptor].outputs[0],
        pipeline.frame,
        _shrink(programs[detector], image, pipeline.frame, recipe.where(*at, "frame")),
        detect,
        crop,
        match,
        min(pipeline.faces, detect.keep),
        pipeline.name_bytes,
        zlib.crc32(codes[descriptor]),
    )


def _stages(recipe: Recipe, program: Program) -> list[tuple[CpuStage, Any]]:
    return list(zip(recipe.postprocess, stages_of(recipe, program), strict=True))


def _one(
    stages: list[tuple[CpuStage, Any]], kind: type[Any], recipe: DeploymentRecipe, at: tuple[str, ...], word: str
) -> tuple[Any, Any]:
    for written, stage in stages:
        if isinstance(stage, kind):
            return written, stage
    raise RecipeError(
        f"its recipe has no {word} under postprocess", where=recipe.where(*at), remedy=f"add {word} to that recipe"
    )


def _only_input(program: Program, recipe: DeploymentRecipe, at: tuple[str, ...]) -> str:
    if len(program.inputs) != 1:
        raise RecipeError(
            f"the detector has {len(program.inputs)} inputs",
            where=recipe.where(*at),
            remedy="name one with one input",
        )
    return program.inputs[0]


def _shrink(program: Program, image: str, frame: tuple[int, int], place: str) -> Shrink:
    tensor = program.tensors[image]
    gray = len(tensor.shape) == 3 and tensor.shape[0] == 1
    height, width = tensor.shape[1:] if gray else (0, 0)
    factor = frame[0] // height if height else 0
    if not gray or (height * factor, width * factor) != frame or not isinstance(tensor.format, Fixed):
        sides = "x".join(str(side) for side in tensor.shape)
        raise RecipeError(
            f"a frame of {frame[0]}x{frame[1]} is no whole multiple of the detector's input, {sides}",
            where=place,
            remedy=f"write frame: [{height}, {width}], or twice or three times that"
            if gray
            else "give the detector a gray input",
        )
    return Shrink(height, width, factor, tensor.format)


def _pixel(coordinate: int, side: int) -> int:
    return ((coordinate + ONE) * side + ONE // 2) // ONE - side


def _up(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
