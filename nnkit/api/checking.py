"""What can be told of a recipe in a second or two: the files that it names are opened, and nothing is computed.

All that is found is told at once. A network with an operator that not every target takes is imported and lowered, so
that the answer is the one that a run gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.preparing import Switches, builds
from nnkit.api.sweeping import load_sweep
from nnkit.errors import NnkitError, RecipeError, SeveralError, UserFileError

if TYPE_CHECKING:
    import onnx

    from nnkit.importers import ImportResult
    from nnkit.preprocess import Preprocess
    from nnkit.recipe import InputSpec, Recipe
    from nnkit.recipe.settings import Setting

MOST_FILES = 2_000  # of each list of pictures that are opened; evenly spread over it
_TOLD = 3  # files that are wrong in one way

Shapes = Mapping[str, tuple[int, ...]]

_TAKEN_BY_ALL = """
    Abs Add AveragePool BatchNormalization Cast Clip Concat Constant Conv ConvTranspose Div Dropout Exp Flatten
    Gather Gemm GlobalAveragePool GlobalMaxPool HardSigmoid Identity LeakyRelu MatMul Max MaxPool Min Mul PRelu Pad
    ReduceL2 ReduceMax ReduceMean ReduceSum Relu Reshape Resize Shape Sigmoid Slice Softmax Split Sqrt Squeeze Sub
    Tanh Transpose Unsqueeze
"""
TAKEN_BY_ALL = frozenset(_TAKEN_BY_ALL.split())
_SIDES = ("kernel_shape", "strides", "dilations")
_USUAL_SIDE = 7
"""Windows of so many rows and columns every target takes."""
"""Operators of ONNX that every target of nnkit takes, or that the import folds away: docs/operators.md."""


@dataclass(frozen=True)
class Checked:
    """A recipe in which nothing wrong was found. calibration: files by input. notes: what is risky."""

    recipe: Recipe
    calibration: Mapping[str, int]
    verification: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Ends:
    """Shapes of the network's inputs and outputs by name, as far as they can be told; 0 for a side that cannot."""

    inputs: Shapes = field(default_factory=dict)
    outputs: Shapes = field(default_factory=dict)


@dataclass
class _Findings:
    errors: list[NnkitError] = field(default_factory=list)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """An error inside is one finding more, and checking goes on behind it."""
        try:
            yield
        except NnkitError as error:
            if str(error) not in map(str, self.errors):
                self.errors.append(error)

    def raise_them(self, where: str) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise SeveralError(self.errors, where=where)


def check(path: str | Path, settings: Sequence[Setting] = ()) -> Checked:
    """Open what a recipe names: model, pictures, labels, tables, keys, programs; ask its targets.

    Raises InvalidRecipeError for the recipe's own text, at any point of its sweep; otherwise the one NnkitError that
    was found, or SeveralError.
    """
    from nnkit.stages.packaging import signing_key
    from nnkit.target import check_corrections, check_required, load_target, plugin_name

    recipe = load_sweep(Path(path), settings).recipe
    findings = _Findings()
    ends = _Ends()
    with findings.gathered():
        ends = _network(recipe, findings)
    counts = _pictures(recipe, ends.inputs, findings)
    for outputs in _outputs(recipe, ends.outputs, findings):
        with findings.gathered():
            _labels(recipe, outputs, counts)
    with findings.gathered():
        check_required(recipe)
    beyond: list[str] = []
    for key in recipe.targets:
        with findings.gathered():
            target = load_target(plugin_name(key))
            check_corrections(recipe, key, target)
            beyond += target.beyond_the_chip(recipe.targets[key])
        table = recipe.calibration_for(key).table
        if table is not None:
            with findings.gathered():
                table.existing_file("the calibration table")
    with findings.gathered():
        signing_key(recipe)
    findings.raise_them(str(path))
    calibration = {name: len(files) for (kind, name), files in counts.items() if kind == "calibration"}
    verification = min((len(files) for (kind, _), files in counts.items() if kind == "verification"), default=0)
    return Checked(
        recipe,
        calibration,
        verification,
        (*dict.fromkeys(beyond), *_uncalibrated(recipe, ends.inputs), *_notes(counts)),
    )


def _network(recipe: Recipe, findings: _Findings) -> _Ends:
    """Raises what the network's file has wrong first."""
    from nnkit.importers import DeclaredInputs, ImportOptions, read_onnx_network, settle_inputs
    from nnkit.recipe.restructure import entry_name

    section = recipe.model
    model = section.path.existing_file("the model")
    if section.weights is not None:
        return _caffe_network(recipe, model, section.weights.existing_file("the model's weights"), findings)
    if section.format == "tflite":
        from nnkit.importers.tflite_importer import import_tflite

        options = ImportOptions(inputs=_shapes(recipe), input_where=_input_where(recipe))
        return _imported(recipe, import_tflite(model, options), findings)
    read = read_onnx_network(model)
    _tags(recipe, read.proto.graph, findings)
    entries = [entry for key in recipe.targets for entry in recipe.restructure_for(key) or ()]
    declared = DeclaredInputs(
        _shapes(recipe),
        _input_where(recipe),
        any(entry_name(entry) == "replace_input" for entry in entries),
    )
    _known_inputs(recipe, [value.name for value in read.proto.graph.input], findings)
    suspects = _unusual(read.proto.graph)
    settle_inputs(read, declared)
    if suspects:
        _lower(recipe, findings)
    graph = read.proto.graph
    inputs = {value.name: _taken(section.inputs.get(value.name), _sides(value)) for value in graph.input}
    return _Ends(inputs, {value.name: _sides(value) for value in graph.output})


def _sides(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(side.dim_value for side in value.type.tensor_type.shape.dim)


def _taken(spec: InputSpec | None, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as nnkit takes it, channels first; shape: as the file has it."""
    if spec is not None and spec.layout == "nhwc" and len(shape) == 4:
        batch, height, width, channels = shape
        return batch, channels, height, width
    return tuple(shape)


def _caffe_network(recipe: Recipe, model: Path, weights: Path, findings: _Findings) -> _Ends:
    from nnkit.importers import import_caffe

    if recipe.model.custom_layers:  # their code is not run by a check
        return _Ends()
    done = import_caffe(model, weights, inputs=_shapes(recipe), input_where=_input_where(recipe))
    return _imported(recipe, done, findings)


def _imported(recipe: Recipe, done: ImportResult, findings: _Findings) -> _Ends:
    """The ends of a network whose import takes no tool and no time."""
    _tags(recipe, done.model.proto().graph, findings)
    _known_inputs(recipe, [spec.name for spec in done.model.inputs], findings)
    model = done.model
    return _Ends({each.name: each.shape for each in model.inputs}, {each.name: each.shape for each in model.outputs})


def _shapes(recipe: Recipe) -> Shapes:
    return {name: spec.shape for name, spec in recipe.model.inputs.items() if spec.shape is not None}


def _input_where(recipe: Recipe) -> Callable[[str], str]:
    return lambda name: recipe.where("model", "inputs", name, "shape")


def _known_inputs(recipe: Recipe, names: Sequence[str], findings: _Findings) -> None:
    from nnkit.did_you_mean import suggestion

    for name in recipe.model.inputs:
        if name not in names:
            findings.errors.append(
                RecipeError(
                    f"the network has no input '{name}'",
                    where=recipe.where("model", "inputs", name),
                    remedy=suggestion(name, names, "its inputs are"),
                )
            )


def _tags(recipe: Recipe, graph: onnx.GraphProto, findings: _Findings) -> None:
    """Every glob of every target matches a layer."""
    from nnkit.importers import TagGlobs, lift_tags

    def at(place: str) -> Callable[[str, int], str]:
        return lambda tag, index: place

    for key in recipe.targets:
        tags = recipe.tags_for(key)
        for index, glob in enumerate(() if isinstance(tags.hp, str) else tags.hp):
            with findings.gathered():
                lift_tags(graph, TagGlobs(hp=(glob,), where=at(recipe.where_override(key, "tags", "hp", index))))
        for index, glob in enumerate(tags.cpu):
            with findings.gathered():
                lift_tags(graph, TagGlobs(cpu=(glob,), where=at(recipe.where_override(key, "tags", "cpu", index))))


def _unusual(graph: onnx.GraphProto) -> list[str]:
    """Operators on the way from an input to an output that some target does not take, or not with such a window."""
    reached = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    weights = {tensor.name: tensor.dims for tensor in graph.initializer}
    unusual: list[str] = []
    for node in graph.node:
        if not any(name in reached for name in node.input) or node.op_type in ("Shape", "Size"):
            continue
        reached.update(node.output)
        if node.op_type not in TAKEN_BY_ALL or _largest_side(node, weights) > _USUAL_SIDE:
            unusual.append(node.op_type)
    return unusual


def _largest_side(node: onnx.NodeProto, weights: Mapping[str, Sequence[int]]) -> int:
    """The most rows, columns or steps of the layer's window; 0 where it has none."""
    sides = [side for each in node.attribute if each.name in _SIDES for side in each.ints]
    if node.op_type in ("Conv", "ConvTranspose"):
        sides += [side for name in node.input for side in weights.get(name, ())[2:]]
    return max(sides, default=0)


def _lower(recipe: Recipe, findings: _Findings) -> None:
    """Whether each target takes the network, as a run finds out."""
    from nnkit import stages
    from nnkit.report.progress import Progress

    for build in builds(recipe, (), Progress(quiet=True), Switches(emulate=False)):
        with findings.gathered():
            stages.lower(build, stages.restructure(build, stages.import_model(build), compare=False))


def _pictures(recipe: Recipe, shapes: Shapes, findings: _Findings) -> dict[tuple[str, str], list[Path]]:
    """The files by what they are for and by input; each is held to what its input takes."""
    from nnkit.preprocess import Preprocess, list_images

    counts: dict[tuple[str, str], list[Path]] = {}
    for name in dict.fromkeys([*recipe.model.inputs, *shapes]):
        spec = recipe.model.inputs.get(name)
        calibration = spec.calibration if spec is not None else None
        asked = []
        if calibration is not None:
            place = recipe.where("model", "inputs", name, "calibration", "images")
            asked.append(("calibration", calibration.images, calibration.count, place))
        if recipe.verify.globs_for(name):
            asked.append(
                ("verification", recipe.verify.globs_for(name), recipe.verify.count, recipe.where("verify", "images"))
            )
        for key in recipe.targets:
            own = recipe.calibration_for(key)
            if own.judging_globs_for(name):
                place = recipe.where_override(key, "calibration", "judged_on")
                asked.append((f"judging ({key})", own.judging_globs_for(name), None, place))
        for kind, globs, count, place in asked:
            with findings.gathered():
                counts[kind, name] = list_images(globs, Path(), count, where=place)
                if name in shapes:
                    preprocess = Preprocess.from_recipe(spec.preprocess if spec else None, shapes[name])
                    if kind != "calibration" or not recipe.calibration.bad_images:
                        findings.errors += _unfit(counts[kind, name], preprocess, shapes[name], place)
    _as_many(recipe, counts, findings)
    return counts


def _unfit(
    files: Sequence[Path], preprocess: Preprocess, shape: tuple[int, ...], place: str
) -> Iterator[UserFileError]:
    """One error for each way in which files do not fit, by their heads: the first file's, and how many more."""
    from nnkit.preprocess import check_header
    from nnkit.preprocess.files import spread

    kinds: dict[str, list[UserFileError]] = {}
    for path in spread(files, MOST_FILES):
        try:
            check_header(path, preprocess, shape, where=place)
        except UserFileError as error:
            kinds.setdefault(error.remedy, []).append(error)
    for wrong in kinds.values():
        first = wrong[0]
        others = ", ".join(Path(error.where).name for error in wrong[1:_TOLD])
        tail = f" (and {len(wrong) - 1} more: {others}{', ...' if len(wrong) > _TOLD else ''})"
        yield UserFileError(first.reason + (tail if others else ""), where=first.where, remedy=first.remedy)


def _as_many(recipe: Recipe, counts: Mapping[tuple[str, str], list[Path]], findings: _Findings) -> None:
    for kind, where in (("calibration", ("model", "inputs")), ("verification", ("verify", "images"))):
        numbers = {name: len(files) for (of, name), files in counts.items() if of == kind}
        if len(set(numbers.values())) > 1:
            findings.errors.append(
                RecipeError(
                    f"the inputs have different numbers of {kind} files: "
                    + ", ".join(f"{name} {count}" for name, count in numbers.items()),
                    where=recipe.where(*where),
                    remedy="one file of each input makes one sample",
                )
            )


def _outputs(recipe: Recipe, outputs: Shapes, findings: _Findings) -> Iterator[Shapes]:
    """The outputs whose classes labels may name: the file's, or what each target's edits make of them.

    A network is imported and restructured for that only where the recipe has labels and edits both.
    """
    from nnkit import stages
    from nnkit.report.progress import Progress

    edited = [key for key in recipe.targets if _edits(recipe, key)]
    if not edited or getattr(recipe.verify.task, "labels", None) is None or recipe.model.custom_layers:
        yield {} if edited else outputs  # the code of custom layers is not run by a check
        return
    if len(edited) < len(recipe.targets):
        yield outputs
    for build in builds(recipe, edited, Progress(quiet=True), Switches(emulate=False)):
        with findings.gathered():
            made = stages.restructure(build, stages.import_model(build), compare=False).model
            yield {each.name: each.shape for each in made.outputs}


def _edits(recipe: Recipe, key: str) -> bool:
    """Whether the recipe has more than rewrites by name for a target: those leave outputs as they are."""
    return any(not isinstance(entry, str) for entry in recipe.restructure_for(key) or ())


def _labels(recipe: Recipe, outputs: Shapes, counts: Mapping[tuple[str, str], list[Path]]) -> None:
    """The task's file can be read, and names pictures that are verified on and classes that the network has."""
    from nnkit.recipe.tasks import Classification
    from nnkit.verify.tasks.from_recipe import true_classes
    from nnkit.verify.tasks.labels import read_boxes, read_pairs

    task = recipe.verify.task
    files = next((images for (kind, _), images in counts.items() if kind == "verification"), None)
    files = files or next(iter(counts.values()), None)
    if task is None or files is None:
        return
    images = [path.as_posix() for path in files]
    if isinstance(task, Classification):
        true_classes(task, images, _class_count(recipe, outputs), recipe.where("verify", "task", "labels"))
    readers: dict[str, Callable[[Path, Sequence[str]], object]] = {"boxes": read_boxes, "pairs": read_pairs}
    for key, read in readers.items():
        path = getattr(task, key, None)
        if path is not None:
            read(path.existing_file(f"the file of {key}"), images)


def _class_count(recipe: Recipe, outputs: Shapes) -> int | None:
    """How many classes the task's output has; None where the file does not say, or stages follow the network."""
    name = getattr(recipe.verify.task, "output", None) or (next(iter(outputs)) if len(outputs) == 1 else None)
    sides = outputs.get(name, ())[1:] if name is not None else ()
    return math.prod(sides) if sides and all(sides) and not recipe.postprocess else None


def _uncalibrated(recipe: Recipe, inputs: Shapes) -> Iterator[str]:
    if all(recipe.calibration_for(key).table is not None for key in recipe.targets):
        return
    for name in inputs:
        spec = recipe.model.inputs.get(name)
        if spec is None or spec.calibration is None:
            yield (
                f"input {name!r} has no calibration images, which `run` needs: add "
                f"model.inputs.{name}.calibration.images, or calibration.table"
            )


def _notes(counts: Mapping[tuple[str, str], list[Path]]) -> Iterator[str]:
    from nnkit.preprocess import first_frame_note

    frames = first_frame_note(path for files in counts.values() for path in files)
    if frames is not None:
        yield frames
    for (kind, name), files in counts.items():
        if kind == "calibration" and len(files) == 1:
            yield f"input {name!r} is calibrated on one file: give some dozens, like those of the application"
        if kind == "verification":
            own = {path.resolve() for path in counts.get(("calibration", name), ())}
            seen = sum(path.resolve() in own for path in files)
            if seen:
                yield f"{seen} of {len(files)} verification files are calibration files too: the figures will flatter"
