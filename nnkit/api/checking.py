"""All that is wrong with a recipe: what a run refuses before it calibrates, by the same code, and what is wrong with
the files that the recipe names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.preparing import Switches, builds, load
from nnkit.api.sweeping import load_sweep
from nnkit.errors import NnkitError, RecipeError, UserFileError, name_builds, raise_found, worst
from nnkit.recipe.settings import listed_targets
from nnkit.report.progress import Progress

if TYPE_CHECKING:
    import onnx

    from nnkit.importers import ImportResult
    from nnkit.pipeline import Accepted
    from nnkit.preprocess import Preprocess
    from nnkit.recipe import InputSpec, Recipe
    from nnkit.recipe.settings import Setting
    from nnkit.stages import Build

MOST_FILES = 2_000  # of each list of pictures that are opened; evenly spread over it
_TOLD = 3  # files that are wrong in one way

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Checked:
    """A recipe in which nothing wrong was found. keys: of the builds that were checked. calibration: files by input.
    notes: what is risky."""

    recipe: Recipe
    keys: tuple[str, ...]
    calibration: Mapping[str, int]
    verification: int
    notes: tuple[str, ...]


@dataclass
class _Findings:
    """refused: what a run of each target ends with, by key."""

    errors: list[NnkitError] = field(default_factory=list)
    refused: dict[str, NnkitError] = field(default_factory=dict)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """An error inside is one finding more, and checking goes on behind it."""
        try:
            yield
        except NnkitError as error:
            self.add(error)

    def add(self, error: NnkitError) -> None:
        """One finding more, unless it is there."""
        if str(error) not in map(str, self.errors):
            self.errors.append(error)

    def raise_them(self, where: str, tried: int) -> None:
        """What was found, with the exit code of a run, if a run ends for it. tried: how many builds there are."""
        name_builds(self.refused, tried)
        code = worst(error.exit_code for error in self.refused.values()) if self.refused else None
        raise_found(self.errors, where=where, exit_code=code)


def check(path: str | Path, settings: Sequence[Setting] = (), targets: Sequence[str] = ()) -> Checked:
    """Open what a recipe names: model, pictures, labels, tables, keys; ask its targets as a run does.

    Raises InvalidRecipeError for the recipe's own text, at any point of its sweep; otherwise the one NnkitError that
    was found, or SeveralError, with the exit code that a run has.
    """
    from nnkit.stages.given_files import needs_ranges
    from nnkit.stages.packaging import signing_key

    swept = load_sweep(Path(path), settings, targets)
    chosen = [setting for setting in settings if listed_targets(setting)]  # the file may lack builds for them
    recipe = load(Path(path), (*swept.fixed, *chosen)) if chosen else swept.recipe
    keys = tuple(dict.fromkeys(point.key for point in swept.points))
    findings = _Findings()
    inputs: Shapes = {}
    with findings.gathered():
        inputs = _network(recipe, findings)
    counts = _pictures(recipe, inputs, findings)
    beyond: list[str] = []
    with findings.gathered():
        for build in builds(recipe, keys, Progress(quiet=True), Switches(emulate=False)):
            accepted = _accept(build, findings)
            beyond += build.target.beyond_the_chip(build.options)
            if accepted is not None:
                beyond += accepted.imported.left_out_lines
            if inputs and not counts and accepted is not None and not needs_ranges(build, accepted.lowered):
                beyond.append(
                    f"the recipe names no images: {build.key} is verified on drawn inputs, "
                    "which show nothing of real data"
                )
    with findings.gathered():
        signing_key(recipe)
    findings.raise_them(str(path), len(keys))
    calibration = {name: len(files) for (kind, name), files in counts.items() if kind == "calibration"}
    verification = min((len(files) for (kind, _), files in counts.items() if kind == "verification"), default=0)
    return Checked(recipe, keys, calibration, verification, (*dict.fromkeys(beyond), *_notes(counts)))


def _accept(build: Build, findings: _Findings) -> Accepted | None:
    """What a run of the build ends with before it calibrates. The code of custom layers is not run by a check."""
    from nnkit.pipeline import accept
    from nnkit.target import check_corrections

    custom = build.recipe.model.custom_layers
    try:
        if not custom:
            return accept(build)
        check_corrections(build.recipe, build.key, build.target)
    except NnkitError as error:
        findings.refused[build.key] = error
        findings.add(error)
    return None


def _network(recipe: Recipe, findings: _Findings) -> Shapes:
    """The shapes of the network's inputs, 0 for a side that is open. Raises what its file has wrong first."""
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
    settle_inputs(read, declared)
    return {value.name: _taken(section.inputs.get(value.name), _sides(value)) for value in read.proto.graph.input}


def _sides(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(side.dim_value for side in value.type.tensor_type.shape.dim)


def _taken(spec: InputSpec | None, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as nnkit takes it, channels first; shape: as the file has it."""
    if spec is not None and spec.layout == "nhwc" and len(shape) == 4:
        batch, height, width, channels = shape
        return batch, channels, height, width
    return tuple(shape)


def _caffe_network(recipe: Recipe, model: Path, weights: Path, findings: _Findings) -> Shapes:
    from nnkit.importers import import_caffe

    if recipe.model.custom_layers:  # their code is not run by a check
        return {}
    done = import_caffe(model, weights, inputs=_shapes(recipe), input_where=_input_where(recipe))
    return _imported(recipe, done, findings)


def _imported(recipe: Recipe, done: ImportResult, findings: _Findings) -> Shapes:
    """The inputs of a network whose import takes no tool and no time."""
    _tags(recipe, done.model.proto().graph, findings)
    _known_inputs(recipe, [spec.name for spec in done.model.inputs], findings)
    return {each.name: each.shape for each in done.model.inputs}


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
