"""Recipes of deployments: loading and checking them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.checking import Checked, check
from nnkit.errors import NnkitError, RecipeError, raise_found

if TYPE_CHECKING:
    from nnkit.recipe.deployment import DeploymentRecipe
    from nnkit.recipe.settings import Setting


@dataclass(frozen=True)
class CheckedDeployment:
    """A deployment in which nothing wrong was found. networks: as their own recipes were checked."""

    recipe: DeploymentRecipe
    networks: Mapping[str, Checked]
    frames: int
    enrolled: int
    notes: tuple[str, ...]


def load_deployment_recipe(path: Path, settings: Sequence[Setting] = ()) -> DeploymentRecipe:
    """The recipe, validated against the installed targets. Raises InvalidRecipeError."""
    from nnkit.recipe.deployment_loading import load_deployment
    from nnkit.target import option_models

    return load_deployment(path, target_models=option_models(), settings=settings)


def check_deployment(path: str | Path, settings: Sequence[Setting] = ()) -> CheckedDeployment:
    """Open what a deployment's recipe and those of its networks name; nothing is calibrated.

    Raises InvalidRecipeError for the recipe's own text; otherwise the one NnkitError that was found, or SeveralError.
    """
    from nnkit.deployment import deployment_build
    from nnkit.report.progress import Progress
    from nnkit.stages.packaging import signing_key
    from nnkit.target import load_target, plugin_name

    recipe = load_deployment_recipe(Path(path), settings)
    errors: list[NnkitError] = []
    networks: dict[str, Checked] = {}
    frames = enrolled = 0
    of_frames: list[str] = []
    try:
        deployment_build(recipe, Progress(quiet=True), emulate=False)
    except NnkitError as error:
        errors.append(error)
    for name, network in recipe.deployment.networks.items():
        if network.recipe.file.is_file():
            try:
                networks[name] = check(network.recipe.file)
            except NnkitError as error:
                if str(error) not in map(str, errors):
                    errors.append(error)
    try:
        signing_key(recipe)
        frames, enrolled, of_frames = _frames(recipe)
    except NnkitError as error:
        errors.append(error)
    raise_found(errors, where=str(path))
    beyond = load_target(plugin_name(recipe.key)).beyond_the_chip(recipe.targets[recipe.key])
    notes = [f"{name}: {note}" for name, each in networks.items() for note in each.notes if note not in beyond]
    return CheckedDeployment(recipe, networks, frames, enrolled, (*beyond, *notes, *of_frames))


def _frames(recipe: DeploymentRecipe) -> tuple[int, int, list[str]]:
    """How many frames are searched and people enrolled, and notes; each picture is opened.

    Raises RecipeError, UserFileError.
    """
    from nnkit.deployment.verify import read_frame
    from nnkit.preprocess import first_frame_note

    pipeline = recipe.deployment.pipeline
    if pipeline is None or pipeline.verify is None:
        return 0, 0, []
    frames = [path for glob in pipeline.verify.frames for path in glob.matches()]
    people = [path for globs in pipeline.verify.enrol.values() for glob in globs for path in glob.matches()]
    for path in (*frames, *people):
        read_frame(path, pipeline.frame)
    if not frames:
        raise RecipeError(
            "no frame is searched",
            where=recipe.where("deployment", "pipeline", "verify", "frames"),
            remedy="name pictures",
        )
    note = first_frame_note([*frames, *people])
    return len(frames), len(pipeline.verify.enrol), [] if note is None else [note]
