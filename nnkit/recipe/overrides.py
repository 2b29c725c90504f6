"""Values from the command line that replace those of a recipe: `targets.gap8.memory.l2=64KiB`."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import yaml

from nnkit.errors import UsageError
from nnkit.recipe.document import Document
from nnkit.recipe.problems import KeyPath, Place, shown
from nnkit.recipe.scalars import resolve
from nnkit.recipe.yaml_loader import RecipeYaml

_T = TypeVar("_T")


def parse_override(text: str) -> tuple[str, Any]:
    """A dotted key and a value from `key.key=value`; the value is read as in a recipe, without variables.

    Raises:
        UsageError: there is no `=` or no key, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise UsageError(f"'{shown(text)}' sets nothing", remedy="write key.key=value, e.g. targets.gap8.cores=4")
    try:
        return key, _plain(RecipeYaml(value).get_single_node())
    except (yaml.YAMLError, ValueError, OverflowError):
        raise UsageError(
            f"the value in '{shown(text)}' is not YAML", remedy="write text, a number, [a, b] or {key: value}"
        ) from None


def _plain(node: yaml.Node | None) -> Any:
    if node is None:
        return None
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return resolve(node.value) if isinstance(node, yaml.ScalarNode) and not node.style else node.value


def with_overrides(document: Document, overrides: Mapping[str, Any]) -> Document:
    """The document with values replaced or added, in the order given; sections on the way are made.

    Raises:
        UsageError: a key leads through a value that is no section.
    """
    data = copy.deepcopy(document.data)
    values, keys = dict(document.values), dict(document.keys)
    raw, expansions = dict(document.raw), dict(document.expansions)
    for dotted, value in overrides.items():
        path = _set(data, dotted, copy.deepcopy(value))
        values, keys = _without(values, path), _without(keys, path)
        raw, expansions = _without(raw, path), _without(expansions, path)
        place = Place(f"override {dotted}", 0, 0, os.getcwd())
        values[path] = keys[path] = place
    return replace(document, data=data, values=values, keys=keys, raw=raw, expansions=expansions)


def _without(places: Mapping[KeyPath, _T], path: KeyPath) -> dict[KeyPath, _T]:
    """What is known of the document but for the values at and below a path."""
    return {known: value for known, value in places.items() if known[: len(path)] != path}


def _set(data: Any, dotted: str, value: Any) -> KeyPath:
    """Put the value into the data, and return its path."""
    path: list[str | int] = []
    parts = dotted.split(".")
    while parts:
        key, parts = _next_key(data, parts)
        path.append(key)
        if not parts:
            data[key] = value
        elif isinstance(data, dict):
            if data.get(key) is None:
                data[key] = {}
            data = data[key]
        else:
            data = data[key]
    return tuple(path)


def _next_key(data: Any, parts: list[str]) -> tuple[Any, list[str]]:
    """The next key and the rest: the longest key that exists (names may hold dots), else the next part."""
    if isinstance(data, dict):
        for end in range(len(parts), 0, -1):
            if ".".join(parts[:end]) in data:
                return ".".join(parts[:end]), parts[end:]
        return parts[0], parts[1:]
    if isinstance(data, list) and parts[0].isdigit() and int(parts[0]) < len(data):
        return int(parts[0]), parts[1:]
    dotted = shown(".".join(parts))
    raise UsageError(f"'{dotted}' cannot be set: its parent is no section", remedy="name an existing section")
