"""The recipe's task, ready to score a network's outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeAlias

from nnkit.errors import RecipeError
from nnkit.recipe import Recipe
from nnkit.recipe.cpu_stages import Nms, Ssd, Yolo
from nnkit.recipe.tasks import Classification, Detection, DetectionDecode, Verification
from nnkit.verify.tasks.classification import score_classification
from nnkit.verify.tasks.decode import DecodedBoxes
from nnkit.verify.tasks.detection import ROW, score_detection
from nnkit.verify.tasks.labels import (
    ClassNames,
    classes_by_folder,
    read_boxes,
    read_class_names,
    read_classes,
    read_pairs,
)
from nnkit.verify.tasks.score import OneOutput, Outputs, TaskReading, TaskScore
from nnkit.verify.tasks.stage_boxes import StageBoxes
from nnkit.verify.tasks.verification import all_pairs, score_verification

Score: TypeAlias = Callable[[Outputs, Outputs], TaskScore]


@dataclass(frozen=True, eq=False)
class TaskScorer:
    """read: what the task reads of a network's outputs. score: of what is read of the float and quantised ones."""

    read: TaskReading
    score: Score


Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes of a network's outputs by name, without a batch axis."""


def task_scorer(
    recipe: Recipe, outputs: Shapes, inputs: Iterable[tuple[int, ...]], images: Sequence[str]
) -> TaskScorer | None:
    """What the recipe's `verify.task` asks for; None where it has none.

    inputs: the inputs' shapes, as `outputs`. images: the verification images' paths, in the order in which they will
    be scored.

    Raises RecipeError (no such output, or not of the task's form), UserFileError (label files).
    """
    read, task = task_reading(recipe, outputs, inputs), recipe.verify.task
    if read is None or task is None:
        return None
    if isinstance(task, Classification):
        count = math.prod(outputs[task.output or next(iter(outputs))])
        labels = _true_classes(task, images, count, recipe.where("verify", "task", "labels"))
        return TaskScorer(read, lambda floats, program: score_classification(floats, program, labels))
    return TaskScorer(read, _detection(task, images) if isinstance(task, Detection) else _verification(task, images))


def _true_classes(task: Classification, images: Sequence[str], count: int, where: str) -> dict[int, int] | None:
    """The task's classes by index of the image; None where it has no labels. count: of the network's classes."""
    if task.labels is None:
        return None
    names = ClassNames(count)
    if task.classes is not None:
        names = read_class_names(task.classes.existing_file("the file of classes"), count)
    if isinstance(task.labels, str):
        return classes_by_folder(images, names, where)
    return read_classes(task.labels.existing_file("the file of labels"), images, names)


def task_reading(recipe: Recipe, outputs: Shapes, inputs: Iterable[tuple[int, ...]]) -> TaskReading | None:
    """What the recipe's task reads of the outputs; see `task_scorer`, whose RecipeErrors this raises."""
    task = recipe.verify.task
    if task is None:
        return None
    if isinstance(task, Detection) and task.decode is not None:
        return _decoded(recipe, task.decode, outputs, inputs)
    if isinstance(task, Detection) and task.output is None:
        stage = next((each for each in recipe.postprocess if isinstance(each, Ssd | Nms | Yolo)), None)
        if stage is not None and set(StageBoxes(stage).outputs) <= set(outputs):
            return StageBoxes(stage)
    where = recipe.where("verify", "task", "output")
    name = task.output or next(iter(outputs))
    if name not in outputs or (task.output is None and len(outputs) > 1):
        what = f"the network has no output '{name}'" if task.output else f"the network has {len(outputs)} outputs"
        raise RecipeError(what, where=where, remedy=f"write output: one of {', '.join(outputs)}")
    if isinstance(task, Detection) and outputs[name][-1:] != (ROW,):
        raise RecipeError(
            f"output '{name}' has shape {list(outputs[name])}, which is no list of detections",
            where=where,
            remedy="name an output with rows of image, class, score, x_min, y_min, x_max, y_max; or say in decode "
            "how boxes and scores are read (docs/accuracy.md)",
        )
    return OneOutput(name)


def _detection(task: Detection, images: Sequence[str]) -> Score:
    truth = read_boxes(task.boxes.existing_file("the true boxes"), images) if task.boxes else None
    return lambda floats, program: score_detection(floats, program, truth, task.overlap, task.score)


def _decoded(
    recipe: Recipe, decode: DetectionDecode, outputs: Shapes, inputs: Iterable[tuple[int, ...]]
) -> DecodedBoxes:
    where = recipe.where("verify", "task", "decode")
    planes = [shape for shape in inputs if len(shape) == 3]
    if len(planes) != 1:
        raise RecipeError(
            f"detections are read of a network with one image; this has {len(planes)}",
            where=where,
            remedy="remove the task",
        )
    reading = DecodedBoxes(decode, (planes[0][1], planes[0][2]))
    reading.check(outputs, where)
    return reading


def _verification(task: Verification, images: Sequence[str]) -> Score:
    if task.pairs is not None:
        pairs = read_pairs(task.pairs.existing_file("the pairs"), images)
    else:
        pairs = all_pairs([PurePath(image).parent.as_posix() for image in images])
    return lambda floats, program: score_verification(floats, program, pairs, task.metric, task.false_positive_rate)
