"""Sweeps: the grid that `sweep` of a recipe and lists of `--set` span, and the builds in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from nnkit.errors import UsageError
from nnkit.recipe.problems import KeyPath
from nnkit.recipe.settings import TARGETS, Setting, listed
from nnkit.recipe.variables import escape

if TYPE_CHECKING:
    from nnkit.recipe.schema import Recipe

MOST_BUILDS = 1_000
_LONGEST_VARIANT = 40
_NUMBERS = (bool, int, float, type(None))


@dataclass(frozen=True)
class Choice:
    """One value of an axis: how tables name it, how folders do, and what it sets."""

    label: str
    short: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Axis:
    """What varies together, by the name that the recipe gives it: a key of the recipe, or a name for several."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Point:
    """One build of a sweep.

    key: the recipe's key of its target. variant: the key under which it is built, `NAME@VARIANT`. values: the label
    of its value on each axis that matters to it. settings: what they set.
    """

    key: str
    variant: str
    values: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[Setting, ...] = ()


def axes_of_recipe(recipe: Recipe) -> tuple[Axis, ...]:
    """The axes of a recipe's `sweep`, in its order; values know their line of the recipe."""
    return tuple(_axis(recipe, name, values) for name, values in recipe.sweep.items())


def _axis(recipe: Recipe, name: str, values: Sequence[Any] | Mapping[str, Mapping[str, Any]]) -> Axis:
    if isinstance(values, Mapping):
        choices = (
            Choice(
                label,
                label,
                tuple(
                    Setting(key, _text(value), recipe.place("sweep", name, label, key))
                    for key, value in section.items()
                ),
            )
            for label, section in values.items()
        )
        return Axis(name, tuple(choices))
    return _axis_of_values(
        name, values, lambda index, value: Setting(name, _text(value), recipe.place("sweep", name, index))
    )


def _axis_of_values(name: str, values: Sequence[Any], setting: Callable[[int, Any], Setting]) -> Axis:
    choices = []
    for index, value in enumerate(values):
        label = _label(value)
        short = f"{name.rpartition('.')[2]}{label}" if isinstance(value, _NUMBERS) else label
        choices.append(Choice(label, short, (setting(index, value),)))
    return Axis(name, tuple(choices))


def _text(value: Any) -> str:
    """The value as YAML; variables in it were replaced when the recipe was read."""
    return json.dumps(_escaped(value), ensure_ascii=False)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list | tuple) else value


def _label(value: Any) -> str:
    """A value in a word: `int8`, `1x3x96x96`, `balance+adaround`."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_label(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        between = "x" if all(isinstance(item, int) for item in value) else "+"
        return between.join(_label(item) for item in value) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def spanned(
    settings: Sequence[Setting], problems: Callable[[Setting], int]
) -> tuple[tuple[Setting, ...], tuple[Axis, ...]]:
    """Settings of the command line as they are, and those whose lists span a grid as axes.

    A list spans one where the recipe takes its first item there sooner than the list: `[balance, adaround]` is one
    value of `calibration.corrections`, `[[balance], [adaround]]` are two. problems: how many problems the recipe has
    with a setting.
    """
    fixed: list[Setting] = []
    axes: list[Axis] = []
    for setting in settings:
        values = listed(setting)
        if values and (setting.key == TARGETS or _spans(setting, values[0], problems)):
            axes.append(_axis_of_values(setting.key, values, _setter(setting)))
        else:
            fixed.append(setting)
    return tuple(fixed), tuple(axes)


def _setter(setting: Setting) -> Callable[[int, Any], Setting]:
    return lambda index, value: replace(setting, text=json.dumps(value, ensure_ascii=False))


def _spans(setting: Setting, first: Any, problems: Callable[[Setting], int]) -> bool:
    whole = problems(setting)
    return whole > 0 and problems(replace(setting, text=json.dumps(first, ensure_ascii=False))) < whole


def points(recipe: Recipe, axes: Sequence[Axis]) -> tuple[Point, ...]:
    """Every build of the grid, targets in the order of the recipe; without axes one for each target.

    An axis that sets nothing of a build's own target counts once for it, so that no build is made twice.

    Raises UsageError for a key on two axes, and for more than `MOST_BUILDS` builds.
    """
    _check_keys(axes)
    if not axes:
        return tuple(Point(key, key) for key in recipe.targets)
    chosen = next((axis for axis in axes if axis.name == TARGETS), None)
    keys = [choice.label for choice in chosen.choices] if chosen else list(recipe.targets)
    builds = [
        point for key in keys for point in _points_of(key, recipe, [axis for axis in axes if axis is not chosen])
    ]
    return _named(builds)


def _points_of(key: str, recipe: Recipe, axes: Sequence[Axis]) -> Iterator[Point]:
    """The builds for one target."""
    new = () if key in recipe.targets else (Setting(f"{TARGETS}.{key}", "{}"),)
    targets: dict[str, Any] = {TARGETS: {name: {} for name in (*recipe.targets, key)}}
    spans = []
    for axis in axes:
        mine = tuple(
            replace(choice, settings=tuple(s for s in choice.settings if _concerns(s.path(targets), key)))
            for choice in axis.choices
        )
        if any(choice.settings for choice in mine):
            spans.append(replace(axis, choices=mine))
    if math.prod(len(axis.choices) for axis in spans) > MOST_BUILDS:
        raise _too_many()
    for choices in product(*(axis.choices for axis in spans)):
        settings = tuple(setting for choice in choices for setting in choice.settings)
        values = {axis.name: choice.label for axis, choice in zip(spans, choices, strict=True)}
        short = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", choice.short).strip("_.") for choice in choices)
        yield Point(key, short, values, (*new, *settings))


def _concerns(path: KeyPath, key: str) -> bool:
    """Whether a key of the recipe matters to the build of a target."""
    return path[0] != TARGETS or len(path) < 2 or path[1] == key


def _named(builds: Sequence[Point]) -> tuple[Point, ...]:
    """The builds with keys of their own: made of their values, or numbered where these are long or equal."""
    if len(builds) > MOST_BUILDS:
        raise _too_many()
    result, taken = [], set()
    for number, point in enumerate(builds, 1):
        base, _, variant = point.key.partition("@")
        name = "-".join(part for part in (variant, point.variant) if part)
        key = f"{base}@{name}" if name else point.key
        if len(name) > _LONGEST_VARIANT or key in taken or (name and not name[-1].isalnum()):
            key = f"{base}@p{number:03}"
        taken.add(key)
        result.append(replace(point, variant=key))
    return tuple(result)


def _check_keys(axes: Sequence[Axis]) -> None:
    seen: dict[str, str] = {}
    for axis in axes:
        for key in {setting.key for choice in axis.choices for setting in choice.settings}:
            if key in seen:
                raise UsageError(
                    f"'{key}' is on two axes of the sweep: '{seen[key]}' and '{axis.name}'",
                    where="sweep",
                    remedy="leave it on one of them",
                )
            seen[key] = axis.name


def _too_many() -> UsageError:
    return UsageError(
        f"the sweep spans more than {MOST_BUILDS:,} builds",
        where="sweep",
        remedy="give its keys fewer values, or sweep one after another",
    )
