"""From a recipe file to the builds that it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.errors import UsageError
from nnkit.executors import THIS_HOST, ExecutorChoice

if TYPE_CHECKING:
    from nnkit.recipe import Recipe
    from nnkit.recipe.settings import Setting
    from nnkit.report.progress import Progress
    from nnkit.stages import Build


@dataclass(frozen=True)
class Switches:
    """How builds are made, beside what the recipe says.

    cache: results of earlier runs are used. emulate: emulated runners run. executor: where calibration and
    evaluation run. trust: programs that the recipe names are run.
    """

    cache: bool = True
    emulate: bool = True
    executor: ExecutorChoice = THIS_HOST
    trust: bool = False


def load(path: Path, settings: Sequence[Setting] = (), environ: Mapping[str, str] | None = None) -> Recipe:
    """The recipe, validated against the installed targets and rules. settings: values that replace the file's.
    environ: of its variables; the process environment by default.

    Raises InvalidRecipeError.
    """
    from nnkit.recipe import load_recipe
    from nnkit.rewrite import known_names
    from nnkit.target import option_models

    return load_recipe(
        path, target_models=option_models(), known_rules=known_names(), environ=environ, settings=settings
    )


def builds(recipe: Recipe, wanted: Sequence[str], progress: Progress, switches: Switches) -> list[Build]:
    """One Build for each wanted target of the recipe (all of them where none is named).

    Raises UsageError for a target that the recipe has not, RecipeError for a runner that no target has.
    """
    from nnkit.cache import StageCache
    from nnkit.stages import Build
    from nnkit.target import check_required, load_target, plugin_name

    for name in wanted:
        if not any(_is_wanted(key, [name]) for key in recipe.targets):
            raise no_such_target(name, tuple(recipe.targets))
    check_required(recipe)
    chosen = {key: options for key, options in recipe.targets.items() if not wanted or _is_wanted(key, wanted)}
    targets = {key: load_target(plugin_name(key)) for key in chosen}
    cache = StageCache.default() if switches.cache else StageCache.disabled()
    return [
        Build(
            recipe,
            key,
            targets[key],
            options,
            cache,
            progress,
            switches.emulate,
            switches.executor,
            trusted=switches.trust,
        )
        for key, options in chosen.items()
    ]


def no_such_target(name: str, known: Sequence[str]) -> UsageError:
    """The error for a variant of a target that a recipe does not have; a target itself is added."""
    return UsageError(
        f"the recipe has no build {name!r}", where="--target", remedy=f"its builds are: {', '.join(known)}"
    )


def _is_wanted(key: str, wanted: Sequence[str]) -> bool:
    """Whether a build is named itself, or its target is (which stands for all its variants)."""
    from nnkit.target import plugin_name

    return key in wanted or plugin_name(key) in wanted
