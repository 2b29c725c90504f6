"""The builds that a recipe asks for: its targets, and the grid that `sweep` and lists of settings span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.naming import load_named
from nnkit.api.preparing import load, no_such_target
from nnkit.recipe.grid import Point, axes_of_recipe, points, spanned
from nnkit.recipe.problems import InvalidRecipeError, Problem

if TYPE_CHECKING:
    from nnkit.recipe import Recipe
    from nnkit.recipe.settings import Setting


@dataclass(frozen=True)
class Sweep:
    """fixed: the settings that are the same for all points. spans: whether there is a grid.

    left_out: the points of the grid that are for other targets than those asked for.
    """

    recipe: Recipe
    fixed: tuple[Setting, ...]
    points: tuple[Point, ...]
    spans: bool
    left_out: tuple[Point, ...] = ()


def load_sweep(path: Path, settings: Sequence[Setting] = (), targets: Sequence[str] = ()) -> Sweep:
    """The recipe with its builds for these targets (as `load_named` takes them), or all of them; every point is read.

    Raises InvalidRecipeError for mistakes in the recipe or at any point of its grid, UsageError for a target that no
    build is for.
    """
    fixed, spans = spanned(settings, lambda setting: _problems(path, setting))
    named = load_named(path, fixed, targets)
    recipe, fixed = named.recipe, (*fixed, *named.added)
    told = {setting.key for setting in fixed} | {axis.name for axis in spans}
    axes = [*(axis for axis in axes_of_recipe(recipe) if axis.name not in told), *spans]
    every = points(recipe, axes)
    wanted = _wanted(every, named.keys)
    if axes:
        _check_points(path, fixed, wanted)
    left_out = tuple(point for point in every if point not in wanted) if axes else ()
    return Sweep(recipe, fixed, wanted, bool(axes), left_out)


def _check_points(path: Path, fixed: Sequence[Setting], wanted: Sequence[Point]) -> None:
    """Raises InvalidRecipeError. A key that is wrong with every value of a line is told once."""
    problems: dict[tuple[str, str], Problem] = {}
    for point in wanted:
        try:
            load(path, (*fixed, *point.settings))
        except InvalidRecipeError as error:
            for problem in error.problems:
                line = problem.where.rpartition(":")[0]
                problems.setdefault((line, problem.reason), problem)
    if problems:
        raise InvalidRecipeError(tuple(problems.values()), file=str(path))


def _wanted(every: Sequence[Point], targets: Sequence[str]) -> tuple[Point, ...]:
    """The points for the targets that are named: a target with all its builds, or one build."""
    names = [{point.variant, point.key, point.key.partition("@")[0]} for point in every]
    for target in targets:
        if not any(target in each for each in names):
            known = tuple(dict.fromkeys(point.variant for point in every))
            raise no_such_target(target, known)
    return tuple(p for p, mine in zip(every, names, strict=True) if not targets or mine & set(targets))


def _problems(path: Path, setting: Setting) -> int:
    """How many problems a recipe has with one setting."""
    try:
        load(path, (setting,))
    except InvalidRecipeError as error:
        return len(error.problems)
    return 0
