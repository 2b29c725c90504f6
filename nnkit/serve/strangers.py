"""Recipes of strangers: they may name what was sent with them, and nothing else of this machine.

Checked before the first file is read: no `!include`. Checked of the loaded recipe: every path is relative, stays in
the folder of the upload, also through links, and names no program; variables have no values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import BaseModel

from nnkit.errors import RecipeError
from nnkit.recipe import Recipe
from nnkit.recipe.settings import Setting, settings_of
from nnkit.recipe.types import RecipePath
from nnkit.recipe.yaml_loader import INCLUDE_TAG, compose

_REMEDY = "send the file along, and name it as it was sent, without a folder above"


def load_foreign(file: Path, settings: Mapping[str, Any], target: str) -> Recipe:
    """The recipe of an upload, in the folder where all of it lies.

    target: the only one of its targets that is built; all are where it has none of that name.

    Raises RecipeError for one that names anything beyond, and what a recipe that is wrong raises.
    """
    from nnkit.api.preparing import load

    refuse_includes(file)
    recipe = load(file, foreign_settings(settings), environ={})
    folder = file.parent.resolve()
    for path in recipe_paths(recipe):
        _refuse_outside(path, folder)
    for key, options in recipe.targets.items():
        for program in options.programs() if target not in recipe.targets or key == target else ():
            raise RecipeError(
                f"a recipe that is sent may name no program: '{program.text}'",
                where=program.where,
                remedy="leave it out; the server knows its own tools",
            )
    return recipe


def refuse_includes(file: Path) -> None:
    """Raises RecipeError for `!include` anywhere: it is read before anybody knows what it names."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot be read: {error}", where=file.name, remedy="send a text in UTF-8") from error
    for node in _nodes(compose(text, file.name)):
        if node.tag == INCLUDE_TAG:
            mark = node.start_mark
            raise RecipeError(
                "a recipe that is sent may include no files",
                where=f"{file.name}:{mark.line + 1}:{mark.column + 1}",
                remedy="write the fragment in its place",
            )


def foreign_settings(settings: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Settings that were sent, as values of JSON: they hold no tags of YAML. Raises UsageError for an odd key."""
    return settings_of(settings)


def _nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node once, however aliases share it."""
    seen: set[int] = set()
    left = [root]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.MappingNode):
            left += [each for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            left += node.value


def recipe_paths(value: Any) -> Iterator[RecipePath]:
    """Every path in a recipe."""
    if isinstance(value, RecipePath):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from recipe_paths(getattr(value, name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from recipe_paths(item)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from recipe_paths(item)


def _refuse_outside(path: RecipePath, folder: Path) -> None:
    parts = PurePosixPath(path.text.replace("\\", "/"))
    plain = not parts.is_absolute() and ".." not in parts.parts and not path.text.startswith("~")
    # A glob's fixed part is resolved: uploads hold no links, but what they are put into might.
    fixed = [part for part in parts.parts if not any(c in part for c in "*?[")]
    inside = plain and (path.folder / Path(*fixed)).resolve().is_relative_to(folder)
    if not inside:
        raise RecipeError(
            f"a recipe that is sent may name only files that are sent with it: '{path.text}'",
            where=path.where,
            remedy=_REMEDY,
        )
