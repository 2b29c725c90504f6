"""Inputs for a finished build: files, preprocessed as its recipe says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nnkit.did_you_mean import suggestion
from nnkit.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.builds import BuiltFolder
    from nnkit.graph import Model
    from nnkit.recipe import Recipe
    from nnkit.samples import Sample

T = TypeVar("T")


def load_given(build: BuiltFolder, model: Model, given: Mapping[str, str | Path | NDArray[Any]]) -> Sample:
    """One sample for `model`, the build's float network: of each input a file, or the array itself."""
    from nnkit.inputs import preprocess_by_input
    from nnkit.preprocess import as_network_input, load_input
    from nnkit.samples import Sample

    preprocess = preprocess_by_input(recipe_of(build), model)
    inputs = {}
    for spec in model.inputs:
        value = given[spec.name]
        if isinstance(value, str | Path):
            inputs[spec.name] = load_input(Path(value), preprocess[spec.name], spec.shape)
        else:
            inputs[spec.name] = as_network_input(value, spec.shape, where=f"input {spec.name!r}")
    return Sample(", ".join(str(v) for v in given.values() if isinstance(v, str | Path)), inputs)


def load_samples(
    build: BuiltFolder, globs: list[str], count: int, option: str, note: Callable[[str], None] = lambda text: None
) -> list[Sample]:
    """Samples from globs, one for each input; at most `count`, spread evenly over the files.

    globs: `GLOB`, or `NAME=GLOB` for every input of a network with several. option: for messages.
    note: is given what is to be known of the files.

    Raises UsageError (an input without a glob, numbers of files that do not agree), RecipeError and UserFileError
    (files).
    """
    from nnkit.preprocess import first_frame_note, list_images

    model = build.model("float.onnx")
    by_input = given_by_name([spec.name for spec in model.inputs], globs, option, "GLOB")
    files = {name: list_images(glob, Path(), count, where=option) for name, glob in by_input.items()}
    numbers = {name: len(paths) for name, paths in files.items()}
    if len(set(numbers.values())) > 1:
        raise UsageError(
            f"the inputs have different numbers of files: {', '.join(f'{n} {c}' for n, c in numbers.items())}",
            where=option,
            remedy="one file of each input makes one sample",
        )
    frames = first_frame_note(path for paths in files.values() for path in paths)
    if frames is not None:
        note(frames)
    total = min(numbers.values())
    return [load_given(build, model, {name: paths[i] for name, paths in files.items()}) for i in range(total)]


def by_name(names: Sequence[str], given: Mapping[str, T]) -> dict[str, T]:
    """What was given for each input, in their order. Raises UsageError for one too many or one without."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(
            f"the network has no input {unknown[0]!r}", where="inputs", remedy=suggestion(unknown[0], names, "inputs")
        )
    lacking = [name for name in names if name not in given]
    if lacking:
        raise UsageError(f"nothing for input {', '.join(lacking)}", where="inputs", remedy="give a file or an array")
    return {name: given[name] for name in names}


def given_by_name(names: list[str], texts: list[str], option: str, what: str) -> dict[str, str]:
    """What was given for each input, as `NAME=...` or, for a single input, without its name.

    Raises UsageError for a name that there is not, and for an input without.
    """
    given: dict[str, str] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        if rest and name in names:
            given[name] = rest
        elif len(names) == 1:
            given[names[0]] = text
        else:
            raise UsageError(
                f"{text!r} names no input of this network",
                where=option,
                remedy=f"write NAME={what}: {', '.join(names)}",
            )
    lacking = [name for name in names if name not in given]
    if lacking:
        raise UsageError(f"no file for input {', '.join(lacking)}", where=option, remedy=f"add {option} NAME={what}")
    return {name: given[name] for name in names}


def recipe_of(build: BuiltFolder) -> Recipe:
    """The recipe as the build keeps it; its files need not be there any more, only what it says is read."""
    from nnkit.recipe import load_recipe
    from nnkit.target import option_models

    blank = _Blank(os.environ)
    return load_recipe(build.folder / "recipe.yaml", target_models=option_models(), environ=blank)


class _Blank(dict[str, str]):
    """An environment in which a variable that is not set is `.`: none of the recipe's paths is opened."""

    def __missing__(self, key: str) -> str:
        return "."

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `.`."""
        return super().get(key, ".")
