"""What the network is for, where the recipe does not say: a network whose output is a list of detections detects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.recipe import Recipe
from nnkit.recipe.tasks import Detection, Task
from nnkit.stages.raw_boxes import raw_boxes_note
from nnkit.stages.types import Build, Restructured

if TYPE_CHECKING:
    import onnx

    from nnkit.verify.tasks import TaskJudge

_WHY_ROWS = (
    "the network gives a list of detections, of which '{}' says nothing: with every box in a corner the cosine can "
    "be 0.99, and one weak detection more shifts all rows behind it"
)
_WHY_RAW = "the network gives boxes and scores, of which '{}' says little: nearly all are of the background"


def settle_task(build: Build, restructured: Restructured) -> Build:
    """The build with the task that its network has.

    A list of detections is judged by how many of the float network's are found again. Distances say nothing of it:
    its rows are in order of score, so that one weak detection more shifts all others, and scores and class numbers
    outweigh the boxes.

    Raises RecipeError where the task is not one of this network's outputs, or the recipe gates such a distance of a
    network that detects.
    """
    from nnkit.verify.gates import DISTANCES

    recipe = build.recipe
    if recipe.verify.task is None:
        detections = lists_of_detections(restructured.model.proto().graph)
        if len(detections) != 1:
            note = boxes_note(recipe, restructured.model)
            if note is not None:
                build.progress.note(note)
            return build
        task = Detection(kind="detection", output=detections[0])
        verify = recipe.verify.model_copy(update={"task": task})
        build = replace(build, recipe=recipe.model_copy(update={"verify": verify}))
        build.progress.note(f"output {detections[0]!r} is a list of detections: task: {{kind: detection}}")
    _check_task(build, restructured)
    if not isinstance(build.recipe.verify.task, Detection):
        return build
    for gate in DISTANCES:
        if gate in recipe.verify.gates.limits():
            raise RecipeError(
                _WHY_RAW.format(gate) if _decodes(recipe.verify.task) else _WHY_ROWS.format(gate),
                where=recipe.where("verify", "gates", gate),
                remedy="write gates: {detection_agreement: 0.95}"
                + ("" if _decodes(recipe.verify.task) else " and task: {kind: detection}"),
            )
    return build


def boxes_note(recipe: Recipe, model: Model) -> str | None:
    """For a recipe without a task: what to write where the network's outputs look like a detector's."""
    if recipe.verify.task is not None:
        return None
    staged = any(stage.kind in ("ssd", "nms", "yolo") for stage in recipe.postprocess)
    return raw_boxes_note(model, staged=staged)


def task_judge(build: Build, model: Model) -> TaskJudge | None:
    """What judges corrections by the recipe's task; None where it names no images for that.

    Raises RecipeError where it has no task, or images that something else uses.
    """
    from nnkit.inputs import judging_samples
    from nnkit.verify.tasks import TaskJudge, task_scorer

    settings = build.recipe.calibration_for(build.key)
    if settings.judged_on is None:
        return None
    where = build.recipe.where_override(build.key, "calibration", "judged_on")
    samples = judging_samples(build.recipe, settings, model, where)
    outputs, inputs = ({spec.name: spec.shape[1:] for spec in specs} for specs in (model.outputs, model.inputs))
    scorer = task_scorer(build.recipe, outputs, inputs.values(), samples.images)
    if scorer is None:
        raise RecipeError(
            "images that judge corrections are judged by a task, and there is none",
            where=where,
            remedy="add verify.task, or remove this line",
        )
    return TaskJudge(model, samples, scorer, where)


def _check_task(build: Build, restructured: Restructured) -> None:
    """Told now, not when all is built."""
    from nnkit.verify.tasks import task_reading

    model = restructured.model
    outputs = {spec.name: spec.shape[1:] for spec in model.outputs}
    task_reading(build.recipe, outputs, [spec.shape[1:] for spec in model.inputs])


def _decodes(task: Task | None) -> bool:
    return isinstance(task, Detection) and task.decode is not None


def lists_of_detections(graph: onnx.GraphProto) -> list[str]:
    """The network's outputs that a DetectionOutput computes."""
    from nnkit.custom_ops import DOMAIN, DetectionOutput

    outputs = {value.name for value in graph.output}
    return [
        name
        for node in graph.node
        if node.domain == DOMAIN and node.op_type == DetectionOutput.op_type
        for name in node.output
        if name in outputs
    ]
