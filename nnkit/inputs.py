"""From the recipe to files and preprocessing of each network input."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.drawn_inputs import DrawnSamples, drawn_samples
from nnkit.errors import RecipeError
from nnkit.graph import InputSpec, Model
from nnkit.input_range import InputRange
from nnkit.preprocess import Preprocess, list_images, load_input
from nnkit.preprocess.files import named, spread
from nnkit.recipe import Calibration, Recipe
from nnkit.samples import Sample, SamplesOnDemand

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nnkit.program import Program
    from nnkit.recipe.inputs import Color


_PIXEL_LOW, _PIXEL_HIGH = 0.0, 255.0


def preprocess_by_input(recipe: Recipe, model: Model) -> dict[str, Preprocess]:
    """The preprocessing of every input; inputs that the recipe does not list get the defaults.

    Raises RecipeError for an input that neither the model has nor its file; those that nothing uses are left out of
    the model.
    """
    known = {spec.name for spec in model.inputs}
    unknown = [name for name in recipe.model.inputs if name not in known]
    unused = _declared_types(recipe) if unknown else {}
    for name in unknown:
        if name not in unused:
            raise RecipeError(
                f"the model has no input '{name}'",
                where=recipe.where("model", "inputs", name),
                remedy=f"its inputs are: {', '.join(sorted(known))}",
            )
    return {spec.name: _preprocess(recipe, spec) for spec in model.inputs}


def _preprocess(recipe: Recipe, spec: InputSpec) -> Preprocess:
    from nnkit.recipe.inputs import looks_channels_last

    written = recipe.model.inputs.get(spec.name)
    if written is not None and written.preprocess is not None and looks_channels_last(spec.shape):
        raise RecipeError(
            f"pictures cannot feed input '{spec.name}' of shape {list(spec.shape)}: its channels are last",
            where=recipe.where("model", "inputs", spec.name, "preprocess"),
            remedy="add `layout: nhwc` beside `preprocess`",
        )
    return Preprocess.from_recipe(written.preprocess if written is not None else None, spec.shape)


def image_inputs(recipe: Recipe, model: Model) -> dict[str, Preprocess]:
    """The preprocessing of the inputs that the recipe makes from images, as its `preprocess` says."""
    written = recipe.model.inputs
    return {
        name: preprocess
        for name, preprocess in preprocess_by_input(recipe, model).items()
        if name in written and written[name].preprocess is not None
    }


def picture_inputs(recipe: Recipe, program: Program) -> dict[str, Preprocess]:
    """The same for the inputs of a program, as far as they are pictures there: [C, H, W], or [1, C, H, W]."""
    written, pictures = recipe.model.inputs, dict[str, Preprocess]()
    for name in program.inputs:
        shape = (1, *program.tensors[name].shape)[-4:]
        given = written[name].preprocess if name in written else None
        if given is not None and len(shape) == 4 and shape[0] == 1 and shape[1] in (1, 3):
            pictures[name] = Preprocess.from_recipe(given, shape)
    return pictures


def input_ranges(recipe: Recipe, model: Model) -> dict[str, InputRange]:
    """Exact ranges of inputs that are made from images: pixels lie in 0..255.

    Raw pixels (mean 0, scale 1) are whole numbers, which the hardware can take as they are.
    """
    ranges: dict[str, InputRange] = {}
    for name, preprocess in image_inputs(recipe, model).items():
        ends = [
            (pixel - mean) * scale
            for mean, scale in zip(
                _by_channel(preprocess.mean, preprocess), _by_channel(preprocess.scale, preprocess), strict=True
            )
            for pixel in (_PIXEL_LOW, _PIXEL_HIGH)
        ]
        raw = set(preprocess.mean) == {0.0} and set(preprocess.scale) == {1.0}
        ranges[name] = InputRange(min(ends), max(ends), integral=raw)
    return ranges


def _by_channel(values: tuple[float, ...], preprocess: Preprocess) -> tuple[float, ...]:
    """One value for each channel; a single one stands for all."""
    return values if len(values) == preprocess.channels else values * preprocess.channels


def has_calibration(recipe: Recipe, settings: Calibration, model: Model) -> bool:
    """Whether the recipe names a table, or images for every input."""
    if settings.table is not None:
        return True
    return all(_calibrated(recipe, spec.name) for spec in model.inputs)


def _calibrated(recipe: Recipe, name: str) -> bool:
    written = recipe.model.inputs.get(name)
    return written is not None and written.calibration is not None


def images_to_add(names: Iterable[str]) -> str:
    """What is to be written for inputs without images: `model.inputs.x.calibration.images`, for each of them."""
    keys = " and ".join(f"model.inputs.{name}.calibration.images" for name in names)
    return f"add {keys} (with a model instead of a recipe: --images DIR)"


def calibration_files(recipe: Recipe, model: Model) -> dict[str, list[Path]]:
    """The calibration images of every input. Raises RecipeError where inputs have none."""
    preprocess_by_input(recipe, model)
    written = {name: spec.calibration for name, spec in recipe.model.inputs.items() if spec.calibration is not None}
    lacking = [spec.name for spec in model.inputs if spec.name not in written]
    if lacking:
        raise RecipeError(
            f"no calibration images for input {' and '.join(map(repr, lacking))}",
            where=recipe.where("model", "inputs", lacking[0]),
            remedy=f"{images_to_add(lacking)}, or calibration.table",
        )
    files: dict[str, list[Path]] = {}
    for spec in model.inputs:
        place = recipe.where("model", "inputs", spec.name, "calibration", "images")
        files[spec.name] = list_images(written[spec.name].images, Path(), written[spec.name].count, where=place)
    return files


class VerificationSamples(SamplesOnDemand):
    """Samples that are read from files."""

    def __init__(
        self, model: Model, files: Mapping[str, list[Path]], preprocess: Mapping[str, Preprocess], base: Path
    ) -> None:
        """base: what the files are named relative to."""
        self._model, self._files, self._preprocess, self._base = model, files, preprocess, base
        self._count = min(len(paths) for paths in files.values())

    @property
    def images(self) -> list[str]:
        """The path of every sample's first file, by which label files name it."""
        return [path.as_posix() for path in self._files[self._model.inputs[0].name][: self._count]]

    def __len__(self) -> int:
        return self._count

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """A sample's first input as the network sees it, [H, W] gray or [H, W, 3] red, green, blue; None: no picture.

        Crop, flip and resize are done, mean and scale are not.
        """
        import numpy as np

        spec = self._model.inputs[0]
        path, preprocess = self._files[spec.name][index], self._preprocess[spec.name]
        if path.suffix.lower() == ".npy":
            return None
        color: Color = "gray" if preprocess.color == "gray" else "rgb"
        plain = replace(preprocess, color=color, mean=(0.0,), scale=(1.0,))
        pixels: NDArray[np.uint8] = np.rint(load_input(path, plain, spec.shape)[0]).astype(np.uint8)
        return pixels.transpose(1, 2, 0) if color == "rgb" else pixels[0]

    def sample(self, index: int) -> Sample:
        """The files of that number, one for each input."""
        return _sample(self._model, self._files, self._preprocess, self._base, index)


def samples_or_drawn(recipe: Recipe, model: Model) -> VerificationSamples | DrawnSamples:
    """The inputs that a run verifies on; of a recipe that names no images, drawn ones."""
    if _names_images(recipe):
        return verification_samples(recipe, model)
    return drawn_samples(model, image_inputs(recipe, model), _declared_types(recipe))


def verification_samples(recipe: Recipe, model: Model, most: int | None = None) -> VerificationSamples:
    """The inputs that a run verifies on: the recipe's held-out images, or the calibration images."""
    preprocess = preprocess_by_input(recipe, model)
    files: dict[str, list[Path]] = {}
    for spec in model.inputs:
        globs = recipe.verify.globs_for(spec.name)
        if globs:
            place = recipe.where("verify", "images")
            files[spec.name] = list_images(globs, Path(), recipe.verify.count, where=place)
    if len(files) < len(model.inputs):
        lacking = [
            spec.name for spec in model.inputs if spec.name not in files and not _calibrated(recipe, spec.name)
        ]
        if lacking:
            raise RecipeError(
                f"no images to verify input {' and '.join(map(repr, lacking))} on",
                where=recipe.where("verify", "images"),
                remedy=f"{images_to_add(lacking)}, or verify.images by input, {{NAME: GLOB}}, for all of them",
            )
        files = {
            name: spread(images, recipe.verify.count) for name, images in calibration_files(recipe, model).items()
        }
    if most is not None:
        files = {name: paths[:most] for name, paths in files.items()}
    return VerificationSamples(model, files, preprocess, recipe.model.path.folder)


def _names_images(recipe: Recipe) -> bool:
    """Whether the recipe names images to calibrate or to verify any of its inputs on."""
    return bool(recipe.verify.images) or any(spec.calibration is not None for spec in recipe.model.inputs.values())


def _declared_types(recipe: Recipe) -> dict[str, int]:
    """The element type of each input as an ONNX file declares it; the import makes floats of all."""
    from nnkit.importers.model_file import read_model_file

    section = recipe.model
    if section.format != "onnx":
        return {}
    graph = read_model_file(section.path.existing_file("the model")).graph
    return {value.name: value.type.tensor_type.elem_type for value in graph.input}


def judging_samples(recipe: Recipe, settings: Calibration, model: Model, where: str) -> VerificationSamples:
    """The labelled inputs that judge corrections: those of `settings.judged_on`, which the recipe gives.

    where: of that key. Raises RecipeError for an input without any, and where some are calibrated or verified on.
    """
    preprocess = preprocess_by_input(recipe, model)
    lacking = [spec.name for spec in model.inputs if not settings.judging_globs_for(spec.name)]
    if lacking:
        raise RecipeError(f"no images of input '{lacking[0]}'", where=where, remedy=f"add {lacking[0]}: IMAGES")
    files = {
        spec.name: list_images(settings.judging_globs_for(spec.name), Path(), None, where=where)
        for spec in model.inputs
    }
    counts = {name: len(paths) for name, paths in files.items()}
    if len(set(counts.values())) > 1:
        raise RecipeError(
            "the inputs have different numbers of files: " + ", ".join(f"{k} {v}" for k, v in counts.items()),
            where=where,
            remedy="one file of each input makes one sample",
        )
    judging = VerificationSamples(model, files, preprocess, recipe.model.path.folder)
    verified = {Path(image).resolve() for image in verification_samples(recipe, model).images}
    for count, what in (
        (sum(Path(image).resolve() in verified for image in judging.images), "verification images"),
        (seen_by_calibration(recipe, model, judging.images), "calibration images"),
    ):
        if count:
            raise RecipeError(
                f"{count} of the {len(judging)} images that judge corrections are {what} too",
                where=where,
                remedy="name images that nothing else in the recipe uses: others would flatter the build",
            )
    return judging


def seen_by_calibration(recipe: Recipe, model: Model, images: Sequence[str]) -> int:
    """How many of the verification images (of the first input) the recipe calibrates on as well."""
    if not all(_calibrated(recipe, spec.name) for spec in model.inputs):
        return 0
    calibrated = {path.resolve() for path in calibration_files(recipe, model)[model.inputs[0].name]}
    return sum(Path(image).resolve() in calibrated for image in images)


def calibration_samples(recipe: Recipe, model: Model, most: int, unreadable: Collection[str] = ()) -> list[Sample]:
    """At most `most` samples of calibration, spread evenly over its images.

    unreadable: names of samples that calibration left out, as in `CalibrationStats.skipped`.
    """
    preprocess = preprocess_by_input(recipe, model)
    files = calibration_files(recipe, model)
    count = min(len(paths) for paths in files.values())
    base = recipe.model.path.folder
    usable = [i for i in range(count) if not any(named(paths[i], base) in unreadable for paths in files.values())]
    return [_sample(model, files, preprocess, base, index) for index in spread(usable, most)]


def _sample(
    model: Model, files: Mapping[str, list[Path]], preprocess: Mapping[str, Preprocess], base: Path, index: int
) -> Sample:
    return Sample(
        source=", ".join(dict.fromkeys(named(files[spec.name][index], base) for spec in model.inputs)),
        inputs={
            spec.name: load_input(files[spec.name][index], preprocess[spec.name], spec.shape) for spec in model.inputs
        },
        image=files[model.inputs[0].name][index].as_posix(),
    )
