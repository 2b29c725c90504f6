"""The recipe's CPU stages with what only the Program knows: lengths and number formats of the tensors they touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nnkit.errors import RecipeError, UsageError
from nnkit.postprocess import (
    ArgMax,
    DescriptorMatch,
    Detections,
    FaceCrop,
    L2Normalize,
    Numbers,
    PcaCombine,
    Softmax,
    Stage,
    TopK,
    Yolo,
    YoloHead,
    prior_integers,
)
from nnkit.postprocess.boxes import ONE
from nnkit.postprocess.scores import check_rows
from nnkit.postprocess.yolo import BOX_VALUES
from nnkit.program import Fixed, Program, Tensor
from nnkit.visible import joined

if TYPE_CHECKING:
    from nnkit.recipe import Recipe
    from nnkit.recipe.cpu_stages import CpuStage, Nms, Ssd, YoloMap
    from nnkit.recipe.cpu_stages import Yolo as WrittenYolo

_ROWS: dict[str, Callable[[int, int, Numbers], Softmax | ArgMax | L2Normalize]] = {
    "softmax": Softmax,
    "argmax": ArgMax,
    "l2_normalize": L2Normalize,
}


def stages_of(recipe: Recipe, program: Program) -> list[Stage]:
    """Parameters of every stage, in the recipe's order.

    The crop writes the network's input (one gray channel, square), the match reads the descriptor, both in that
    tensor's own format; so do words on scores, and `ssd`, `nms` and `yolo` on boxes.
    Raises RecipeError where a stage names a tensor that is not there, or one of another shape or format, or where
    the crop's gray levels are not what the network takes.
    """
    return [
        _stage(recipe, program, written, recipe.where("postprocess", index))
        for index, written in enumerate(recipe.postprocess)
    ]


def _stage(recipe: Recipe, program: Program, written: CpuStage, place: str) -> Stage:
    if written.kind == "face_crop":
        tensor = _tensor(program, program.inputs, written.input, place, "input")
        _check_crop(recipe, tensor, written.size, place)
        with _placed(place):
            return FaceCrop(written.size[0], written.border, written.fill, _format(tensor, place))
    if written.kind == "pca_combine":
        return _combine(program, written.outputs or program.outputs, written.components, place)
    if written.kind == "ssd" or written.kind == "nms":
        with _placed(place):
            return _ssd(program, written, place) if written.kind == "ssd" else _nms(program, written, place)
    if written.kind == "yolo":
        with _placed(place):
            return _yolo(program, written, place)
    tensor = _tensor(program, program.outputs, written.output, place, "output")
    with _placed(place):
        if written.kind == "match":
            number: Any = tensor.format
            return DescriptorMatch(tensor.elements, number, written.capacity, written.threshold, written.normalize)
        _check_order(tensor, written.kind)
        classes = written.classes or tensor.shape[-1]
        positions = check_rows(written.kind, classes, tensor.elements)
        numbers = Numbers.of(written.kind, tensor.format)
        if written.kind == "topk":
            return TopK(positions, classes, numbers, written.k)
        return _ROWS[written.kind](positions, classes, numbers)


def _ssd(program: Program, written: Ssd, place: str) -> Detections:
    """Raises UsageError where the outputs do not go with the default boxes."""
    import numpy as np

    from nnkit.custom_ops import PriorBox

    height, width = written.image
    parts = []
    for each in written.priors:
        op = PriorBox(
            each.min_size, each.max_size, each.aspect_ratio, each.flip, each.clip, step=each.step, offset=each.offset
        )
        parts.append(op.boxes((1, 1, *each.map), (1, 3, height, width))[0, 0].reshape(-1, 4))
    priors = np.concatenate(parts)
    location = _tensor(program, program.outputs, written.location, place, "output")
    confidence = _tensor(program, program.outputs, written.confidence, place, "output")
    classes = _classes("ssd", confidence, len(priors))
    sets = 1 if written.share_location else classes
    if location.elements != len(priors) * sets * 4:
        raise UsageError(
            f"'{location.name}' has {location.elements} values, and {len(priors)} default boxes take "
            f"{len(priors) * sets * 4}",
            where="ssd.location",
            remedy="correct priors, or share_location",
        )
    variance = (1.0, 1.0, 1.0, 1.0) if written.variance_encoded_in_target else written.variance
    return Detections(
        "ssd",
        written.code_type,
        len(priors),
        classes,
        _numbers("ssd", location),
        _numbers("ssd", confidence),
        variance,
        written.confidence_threshold,
        written.nms_threshold,
        min(written.top_k or len(priors), len(priors)),
        written.keep_top_k,
        prior_integers(written.code_type, priors),
        written.share_location,
        background=-1 if written.background is None else written.background,
        eta=written.eta,
        clip=written.clip,
    )


def _nms(program: Program, written: Nms, place: str) -> Detections:
    """Raises UsageError where boxes and scores do not go together."""
    boxes = _tensor(program, program.outputs, written.boxes, place, "output")
    scores = _tensor(program, program.outputs, written.scores, place, "output")
    count = boxes.elements // 4
    if boxes.elements % 4 or boxes.shape[-1] != 4:
        raise UsageError(
            f"'{boxes.name}' is {list(boxes.shape)}, which is no list of boxes",
            where="nms.boxes",
            remedy="give the network an output of [boxes, 4]",
        )
    classes = _classes("nms", scores, count)
    height, width = written.image
    return Detections(
        "nms",
        written.format,
        count,
        classes,
        _numbers("nms", boxes),
        _numbers("nms", scores),
        (1 / width, 1 / height, 1 / width, 1 / height),
        written.score_threshold,
        written.iou_threshold,
        min(written.top_k or count, count),
        written.keep,
        classes_first=scores.shape[-1] == count and classes != count and classes > 1,
        background=-1 if written.background is None else written.background,
        clip=written.clip,
    )


def _yolo(program: Program, written: WrittenYolo, place: str) -> Yolo:
    """Raises UsageError where the outputs do not go with the maps."""
    names = tuple(dict.fromkeys(each.output for each in written.heads))
    tensors = [_tensor(program, program.outputs, name, place, "output") for name in names]
    heads = tuple(
        YoloHead(names.index(each.output), *each.map, _anchors(each, written.image)) for each in written.heads
    )
    counts = [sum(head.rows for head in heads if head.output == index) for index in range(len(names))]
    values = {tensor.elements / count for tensor, count in zip(tensors, counts, strict=True)}
    if len(values) > 1 or min(values) != int(min(values)) or min(values) <= BOX_VALUES:
        told = ", ".join(
            f"'{tensor.name}' has {tensor.elements} values for {count} rows"
            for tensor, count in zip(tensors, counts, strict=True)
        )
        raise UsageError(
            f"{told}: a row takes {BOX_VALUES} and one for each class, as many in all outputs",
            where="yolo.heads",
            remedy="correct map and anchors",
        )
    return Yolo(
        written.code,
        heads,
        int(min(values)) - BOX_VALUES,
        tuple(_numbers("yolo", tensor) for tensor in tensors),
        written.score_threshold,
        written.iou_threshold,
        written.top_k,
        written.keep,
        written.scale_xy or (2.0 if written.code == "v5" else 1.0),
        written.order == "anchors",
        written.activated,
        written.clip,
    )


def _anchors(written: YoloMap, image: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Width and height with 14 fraction bits of the image; without anchors those of a cell."""
    cell = (image[1] / written.map[1], image[0] / written.map[0])
    return tuple(
        (round(width / image[1] * ONE), round(height / image[0] * ONE))
        for width, height in written.anchors or (cell,)
    )


def _classes(word: str, scores: Tensor, boxes: int) -> int:
    if scores.elements % boxes:
        raise UsageError(
            f"'{scores.name}' has {scores.elements} values, which are no rows of {boxes} boxes",
            where=word,
            remedy="name the output that has a score for each box and class",
        )
    return scores.elements // boxes


def _numbers(word: str, tensor: Tensor) -> Numbers:
    _check_order(tensor, word)
    return Numbers.of(f"{word}, output '{tensor.name}'", tensor.format)


def _check_order(tensor: Tensor, word: str) -> None:
    """A map may lie pixel by pixel in the C: only what has one order can be read by its shape alone."""
    if len([side for side in tensor.shape if side > 1]) > 2:
        raise UsageError(
            f"'{tensor.name}' is a map of {list(tensor.shape)}",
            where=word,
            remedy="end the network in Reshape or Flatten, so that the output has rows",
        )


def _combine(program: Program, names: tuple[str, ...], components: int, place: str) -> PcaCombine:
    """The merge of two halves, each of which gives the named outputs, in order."""
    tensors = [_tensor(program, program.outputs, name, place, "output") for name in names]
    length = sum(tensor.elements for tensor in tensors)
    formats = {_format(tensor, place) for tensor in tensors}
    if len(formats) > 1:
        shown = ", ".join(f"'{tensor.name}' {tensor.format}" for tensor in tensors)
        reason = f"the outputs have different formats: {shown}"
        raise RecipeError(reason, where=place, remedy="give them one format")
    if length % 2 or length // 2 <= components:
        raise RecipeError(
            f"the outputs have {length} values, which are not 2 x {components} components and a feature twice",
            where=place,
            remedy="write the components of the PCA file that split_full_face_pca was given",
        )
    with _placed(place):
        return PcaCombine(length // 2 - components, components, formats.pop())


def _check_crop(recipe: Recipe, tensor: Tensor, size: tuple[int, int], place: str) -> None:
    height, width = size
    if height != width or tensor.shape != (1, height, width):
        shape = "x".join(str(side) for side in tensor.shape)
        raise RecipeError(
            f"face_crop makes 1x{height}x{width}, but input '{tensor.name}' is {shape}",
            where=place,
            remedy="the crop is square and has one gray channel: write the network's size",
        )
    check_raw_pixels(recipe, tensor, place, "face_crop")


def check_raw_pixels(recipe: Recipe, tensor: Tensor, place: str, stage: str) -> None:
    """Raise RecipeError where a network's preprocessing changes pixels: a stage on the CPU feeds them as they are."""
    spec = recipe.model.inputs.get(tensor.name)
    preprocess = spec.preprocess if spec is not None else None
    changes = preprocess.normalization if preprocess is not None else None
    if changes is not None and (set(changes.mean) != {0.0} or set(changes.scale) != {1.0}):
        raise RecipeError(
            f"{stage} feeds pixels as they are, but the preprocessing of input '{tensor.name}' changes them",
            where=place,
            remedy="normalise in the network (it folds into the first layer) and write mean: 0, scale: 1",
        )


def _format(tensor: Tensor, place: str) -> Fixed:
    if not isinstance(tensor.format, Fixed):
        raise RecipeError(
            f"'{tensor.name}' holds {tensor.format} numbers; CPU stages work on fixed-point tensors",
            where=place,
            remedy="remove the stage, or the _cpu tag of the layer that touches the tensor",
        )
    return tensor.format


def _tensor(program: Program, names: tuple[str, ...], wanted: str | None, place: str, what: str) -> Tensor:
    if wanted is None and len(names) == 1:
        return program.tensors[names[0]]
    if wanted not in names:
        reason = f"the network has no {what} '{wanted}'" if wanted else f"the network has {len(names)} {what}s"
        raise RecipeError(reason, where=place, remedy=f"write {what}: one of {', '.join(names)}")
    return program.tensors[wanted]


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """A value that a stage refuses is the recipe's: the error gets the recipe's line."""
    try:
        yield
    except UsageError as error:
        raise RecipeError(joined(error.where, ": ", error.reason), where=place, remedy=error.remedy) from error
