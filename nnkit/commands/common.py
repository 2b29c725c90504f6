"""What several commands share: loading recipes and builds, and writing results."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import UsageError
from nnkit.executors import THIS_HOST, ExecutorChoice

if TYPE_CHECKING:
    from nnkit.recipe import Recipe
    from nnkit.report.progress import Progress
    from nnkit.stages import Build


def print_line(text: str = "") -> None:
    """One line of a result on stdout."""
    sys.stdout.write(text + "\n")


def print_json(data: Any) -> None:
    """A result for machines on stdout. A number that is not finite, which JSON has not, becomes null."""
    sys.stdout.write(json_module.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def load(path: Path) -> Recipe:
    """The recipe, validated against the installed targets and rules."""
    from nnkit.recipe import load_recipe
    from nnkit.rewrite import known_names
    from nnkit.target import option_models

    return load_recipe(path, target_models=option_models(), known_rules=known_names())


def builds(
    recipe: Recipe,
    wanted: list[str],
    progress: Progress,
    *,
    use_cache: bool,
    emulate: bool,
    executor: ExecutorChoice = THIS_HOST,
) -> list[Build]:
    """One Build for each wanted target of the recipe (all of them where none is named).

    Raises UsageError for a target that the recipe has not, RecipeError for what a target does not offer.
    """
    from nnkit.cache import StageCache
    from nnkit.stages import Build
    from nnkit.target import check_corrections, check_required, load_target, plugin_name

    for name in wanted:
        if not any(_is_wanted(key, [name]) for key in recipe.targets):
            raise UsageError(
                f"the recipe has no target {name!r}",
                where="--target",
                remedy=f"its targets are: {', '.join(recipe.targets)}",
            )
    check_required(recipe)
    chosen = {key: options for key, options in recipe.targets.items() if not wanted or _is_wanted(key, wanted)}
    targets = {key: load_target(plugin_name(key)) for key in chosen}
    for key, target in targets.items():
        check_corrections(recipe, key, target)
    cache = StageCache.default() if use_cache else StageCache.disabled()
    return [
        Build(recipe, key, targets[key], options, cache, progress, emulate, executor)
        for key, options in chosen.items()
    ]


def _is_wanted(key: str, wanted: list[str]) -> bool:
    """Whether a build is named itself, or its target is (which stands for all its variants)."""
    from nnkit.target import plugin_name

    return key in wanted or plugin_name(key) in wanted


def byte_count(size: int) -> str:
    """Bytes for people: `351,872 B`."""
    return f"{size:,} B"
