"""The builds that a command line names: those of the recipe, and targets that are added to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.preparing import load
from nnkit.recipe.settings import TARGETS, Setting, listed_targets

if TYPE_CHECKING:
    from nnkit.recipe import Recipe


@dataclass(frozen=True)
class NamedBuilds:
    """keys: of the recipe's builds that were named, empty where all are wanted. added: what adds targets to it."""

    recipe: Recipe
    keys: tuple[str, ...] = ()
    added: tuple[Setting, ...] = ()


def load_named(path: Path, settings: Sequence[Setting] = (), names: Sequence[str] = ()) -> NamedBuilds:
    """The recipe with the builds that `names` name: a build, a target with all its builds, a chip.

    A target that the recipe has no build for is added with its default options.
    Raises InvalidRecipeError; UsageError for a target that there is not, and for one whose chip is not named.
    """
    from nnkit.target import named_target, plugin_name, with_what_is_required
    from nnkit.target.loading import VARIANT

    recipe = load(path, settings)
    keys: list[str] = []
    added: list[Setting] = []
    for name in names:
        if name in recipe.targets or name in map(plugin_name, recipe.targets):
            keys.append(name)
            continue
        named = named_target(name)
        if VARIANT in named.key:  # of a sweep, or none that there is: whoever makes the builds knows
            keys.append(named.key)
            continue
        builds = [key for key in recipe.targets if plugin_name(key) == named.key]
        mine = [key for key in builds if named.is_of(recipe.targets[key])]
        if mine:
            keys += mine
            continue
        named = with_what_is_required(named)
        key = named.own_key if builds else named.key
        keys.append(key)
        added.append(Setting(f"{TARGETS}.{key}", json.dumps(named.settings)))
    if added:
        recipe = load(path, (*settings, *added))
    return NamedBuilds(recipe, tuple(dict.fromkeys(keys)), tuple(added))


def with_chips(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    """The settings, with `targets=[npu:chip]` as the build for that chip and its options."""
    from nnkit.target import installed_targets, named_target, plugin_name, with_what_is_required

    installed = installed_targets()
    result: list[Setting] = []
    for setting in settings:
        names = listed_targets(setting)
        keys = []
        for name in names:
            if plugin_name(name) in installed:
                keys.append(name)
                continue
            named = with_what_is_required(named_target(name, setting.display), setting.display)
            keys.append(named.own_key if named.settings else named.key)
            if named.settings:
                result.append(Setting(f"{TARGETS}.{keys[-1]}", json.dumps(named.settings)))
        result.append(Setting(TARGETS, json.dumps(keys), setting.written) if names else setting)
    return tuple(result)
