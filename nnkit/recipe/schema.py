"""The recipe as a whole: its sections, and the checks that need more than one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, SerializeAsAny, model_validator

from nnkit.recipe.base import Fault, RecipeModel, faults
from nnkit.recipe.cpu_stages import CpuStage, FaceCrop
from nnkit.recipe.inputs import ModelSection
from nnkit.recipe.placed import Placed
from nnkit.recipe.problems import KeyPath
from nnkit.recipe.restructure import RestructureEntry, entry_faults
from nnkit.recipe.sections import AUTO, Calibration, ReleaseSection, Tags, TargetOptionsBase, Verify
from nnkit.recipe.settings import Setting, settings_beside
from nnkit.recipe.types import FileName, RecipePath

RECIPE_FORMAT = 1


class RecipeBody(RecipeModel):
    """All of a recipe but its targets, whose options belong to the installed plugins."""

    nnkit: Literal[1] = Field(description="Version of the recipe format.", examples=[RECIPE_FORMAT])
    name: FileName = Field(
        description="Names the output folder and the release; letters, digits, `.`, `_`, `-`.", examples=["face_reid"]
    )
    model: ModelSection = Field(description="The trained network and its inputs.")
    restructure: tuple[RestructureEntry, ...] | None = Field(
        default=None,
        description="Rewrite rules and edits, in this order: names, or names with options. `default` stands for "
        "the target's default set, and so does `null`; `[]`: none.",
        examples=[["fold_batch_norm"]],
    )
    tags: Tags = Field(default=Tags(), description="Layers treated specially.")
    calibration: Calibration = Field(default=Calibration(), description="How activations become ranges.")
    postprocess: tuple[CpuStage, ...] = Field(
        default=(), description="Stages on the CPU around the network, in Python and in generated C."
    )
    verify: Verify = Field(default=Verify(), description="What each run verifies on, and its gates.")
    release: ReleaseSection = Field(default=ReleaseSection(), description="The release package.")
    sweep: Mapping[str, tuple[Any, ...] | Mapping[str, Mapping[str, Any]]] = Field(
        default={},
        description="Values that `nnkit run` tries in all combinations, a build for each. By key of the recipe, with "
        "dots: a list of its values (of `targets`: names); or by a name of your own: what to set together, by names "
        "of these settings. See [sweeps](sweeps.md).",
        examples=["{calibration.method: [max, mse], calibration.headroom: [1.0, 1.25]}"],
    )

    @model_validator(mode="after")
    def _sections_agree(self) -> RecipeBody:
        problems = [
            *entry_faults(self.restructure),
            *_auto_without_gates(self.tags, self.verify, ("tags", "hp")),
            *_stage_faults(self),
            *_images_faults(self, ("verify", "images"), self.verify.images),
            *_images_faults(self, ("calibration", "judged_on"), self.calibration.judged_on),
            *_task_faults(self.verify),
            *_sweep_faults(self.sweep),
        ]
        if problems:
            raise faults(problems)
        return self


class Recipe(Placed, RecipeBody):
    """A valid recipe. Made by `nnkit.recipe.load_recipe`."""

    targets: Mapping[str, SerializeAsAny[TargetOptionsBase]] = Field(
        description="What to build for: by target name, that target's options. `NAME@VARIANT` is one more build "
        "for the same target, with options of its own."
    )

    def only(self, key: str, variant: str, settings: Sequence[Setting] | None = None) -> Recipe:
        """The recipe of one build alone, without its sweep: the target `key` under the name of a variant.

        settings: those of the whole sweep, by which its command makes this build; without them the recipe's own.
        """
        recipe = self.model_copy(update={"targets": {variant: self.targets[key]}, "sweep": {}})
        at = ("targets", key)
        moved = {("targets", variant, *path[2:]): place for path, place in self._places.items() if path[:2] == at}
        recipe._places = {**self._places, **moved}
        if settings is not None:
            recipe._settings = settings_beside(settings)
        return recipe

    def restructure_for(self, target: str) -> tuple[RestructureEntry, ...] | None:
        """The rewrite rules and edits for a target; None stands for the target's default set."""
        own = self.targets[target].restructure
        return self.restructure if own is None else own

    def tags_for(self, target: str) -> Tags:
        """The tags for a target."""
        return self.targets[target].tags or self.tags

    def calibration_for(self, target: str) -> Calibration:
        """The calibration settings for a target."""
        return self.targets[target].calibration or self.calibration

    def where_override(self, target: str, section: str, *path: str | int) -> str:
        """As `where`, for a value of `restructure`, `tags` or `calibration` as it holds for a target."""
        if getattr(self.targets[target], section) is not None:
            return self.where("targets", target, section, *path)
        return self.where(section, *path)


def target_faults(body: RecipeBody, options: TargetOptionsBase) -> list[Fault]:
    """What is wrong with a target's options in the light of the rest of the recipe."""
    problems = [*entry_faults(options.restructure)]
    if options.tags is not None:
        problems += _auto_without_gates(options.tags, body.verify, ("tags", "hp"))
    if options.calibration is not None:
        problems += _images_faults(body, ("calibration", "judged_on"), options.calibration.judged_on)
    return problems


def _auto_without_gates(tags: Tags, verify: Verify, at: KeyPath) -> Iterator[Fault]:
    if tags.hp == AUTO and tags.budget is None and not verify.gates.limits():
        yield Fault(
            at,
            "`hp: auto` has no gate to search for",
            "add verify: {gates: {cosine: 0.999}}, or tags: {budget: 16KiB}",
        )


def _stage_faults(body: RecipeBody) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, stage in enumerate(body.postprocess):
        at: KeyPath = ("postprocess", index)
        if stage.kind in seen:
            yield Fault((*at, "kind"), f"there is a second {stage.kind}", "keep one stage of each kind")
        seen.add(stage.kind)
        if {"ssd", "nms"} <= seen:
            yield Fault((*at, "kind"), "there are both ssd and nms, which are one piece of C", "keep one of them")
            seen.discard(stage.kind)
        if isinstance(stage, FaceCrop):
            yield from _face_crop_faults(body, stage, at)


def _face_crop_faults(body: RecipeBody, stage: FaceCrop, at: KeyPath) -> Iterator[Fault]:
    inputs = body.model.inputs
    if stage.input is not None and inputs and stage.input not in inputs:
        known = ", ".join(inputs)
        yield Fault((*at, "input"), f"the model section has no input '{stage.input}'", f"inputs: {known}")
        return
    if stage.input is None and len(inputs) > 1:
        yield Fault(at, "the network has several inputs", f"add input: one of {', '.join(inputs)}")
        return
    spec = inputs.get(stage.input) if stage.input else next(iter(inputs.values()), None)
    if spec is not None and spec.shape is not None:
        wanted = (1, 1, *stage.size)
        if spec.shape != wanted:
            reason = f"face_crop makes an input of shape {list(wanted)}, but the network's is {list(spec.shape)}"
            is_square = len(spec.shape) == 4 and spec.shape[1] == 1 and spec.shape[2] == spec.shape[3]
            right = f"write size: {list(spec.shape[2:])}"
            remedy = right if is_square else "it can feed only a square gray input: remove it"
            yield Fault((*at, "size"), reason, remedy)


def _images_faults(
    body: RecipeBody, at: KeyPath, images: Sequence[RecipePath] | Mapping[str, Sequence[RecipePath]] | None
) -> Iterator[Fault]:
    """What is wrong with images by input, in the light of the network's inputs."""
    inputs = body.model.inputs
    if isinstance(images, Mapping):
        for name in images:
            if inputs and name not in inputs:
                known = ", ".join(inputs)
                yield Fault((*at, name), f"the model section has no input '{name}'", f"inputs: {known}")
    elif images is not None and len(inputs) > 1:
        remedy = f"write {at[-1]}: {{{', '.join(f'{name}: ...' for name in inputs)}}}"
        yield Fault(at, f"the network has {len(inputs)} inputs", remedy)


_NOT_SWEPT = ("nnkit", "name", "sweep", "release")


def _sweep_faults(axes: Mapping[str, Sequence[Any] | Mapping[str, Mapping[str, Any]]]) -> Iterator[Fault]:
    for name, values in axes.items():
        at: KeyPath = ("sweep", name)
        if not values:
            yield Fault(at, f"'{name}' has no values to try", "write a list of them, or leave it out")
            continue
        if isinstance(values, Mapping):
            for label, section in values.items():
                if not section:
                    yield Fault((*at, label), f"'{label}' sets nothing", "write KEY: VALUE, with the recipe's keys")
        elif name == "targets" and not all(isinstance(value, str) for value in values):
            yield Fault(at, "targets are swept by their names", "write targets: [NAME, ...]")
        elif any(value in values[:index] for index, value in enumerate(values)):
            yield Fault(at, f"a value of '{name}' is given twice", "keep one of the two")
        keys = [key for section in values.values() for key in section] if isinstance(values, Mapping) else [name]
        for key in keys:
            if key.partition(".")[0] in _NOT_SWEPT:
                yield Fault(at, f"'{key}' is the same for all builds of a recipe", "sweep other keys")


_TASK_GATES = {
    "top1_agreement": "classification",
    "top5_agreement": "classification",
    "top1_accuracy": "classification",
    "top5_accuracy": "classification",
    "recall": "verification",
    "verification_accuracy": "verification",
    "mean_average_precision": "detection",
    "detection_agreement": "detection",
}
_LABELLED_GATES = {"top1_accuracy": "labels", "top5_accuracy": "labels", "mean_average_precision": "boxes"}


def _example_task(kind: str, gate: str) -> str:
    labels = f", {_LABELLED_GATES[gate]}: FILE" if gate in _LABELLED_GATES else ""
    return f"{{kind: {kind}{labels}}}"


def _task_faults(verify: Verify) -> Iterator[Fault]:
    """Gates that the recipe's task does not measure."""
    kind = verify.task.kind if verify.task is not None else None
    for name in verify.gates.limits():
        at: KeyPath = ("verify", "gates", name)
        wanted = _TASK_GATES.get(name)
        if name == "drop" and kind is None:
            yield Fault(at, "there is no task whose metrics could drop", "add verify: {task: {kind: ...}}")
        elif wanted is not None and wanted != kind:
            stated = f"the task is {kind}" if kind else "there is no task"
            yield Fault(
                at, f"'{name}' is measured for {wanted}, but {stated}", f"add task: {_example_task(wanted, name)}"
            )
        elif name in _LABELLED_GATES and getattr(verify.task, _LABELLED_GATES[name]) is None:
            key = _LABELLED_GATES[name]
            yield Fault(at, f"'{name}' needs what is true of the images", f"add task: {{{key}: FILE}}")
