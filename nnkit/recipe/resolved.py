"""The resolved recipe: one file with every default written out, which loads to the same recipe again."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from nnkit.recipe.deployment import DeploymentRecipe
from nnkit.recipe.restructure import RuleEntry
from nnkit.recipe.scalars import tag_of
from nnkit.recipe.schema import Recipe
from nnkit.recipe.types import RecipePath
from nnkit.recipe.variables import escape

_HEADER = """\
# The recipe as it was run: fragments included, variables in values expanded, defaults written out.
# Paths are as in the original, relative to its folder.
"""


def resolved_yaml(recipe: Recipe | DeploymentRecipe) -> str:
    """The resolved recipe as YAML: the same recipe gives the same text on every machine.

    Paths stay as they were written, with their variables: the text holds no folder of this machine unless the
    recipe does.
    """
    data = _plain(recipe)
    return _HEADER + yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
    )


def _plain(value: Any) -> Any:
    """Models to what YAML can write; text is escaped, so that no `$` in it is taken for a variable."""
    if isinstance(value, RecipePath):
        return value.written
    if isinstance(value, RuleEntry):
        return {value.name: _plain(value.options)}
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {info.alias or name: _plain(getattr(value, name)) for name, info in fields.items()}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return escape(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return _plain(to_jsonable_python(value))


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 or 1.1 would read as anything but text, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Equal values are written out each time."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    style = None
    if tag_of(text) != "str" or text == "<<":
        style = "'"
    if any(c in _RARE_BREAKS for c in text):
        style = '"'  # the only style in which PyYAML escapes them
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_RARE_BREAKS = "\x85\u2028\u2029\ufeff"
_Dumper.add_representer(str, _represent_text)
