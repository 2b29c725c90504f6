"""Tell every path of a validated recipe where it was written, so that it knows what file it means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from nnkit.recipe.document import Document, folder_of
from nnkit.recipe.problems import KeyPath
from nnkit.recipe.types import RecipePath

_Model = TypeVar("_Model", bound=BaseModel)


def anchored(model: _Model, document: Document, path: KeyPath = ()) -> _Model:
    """A copy of `model` (validated from `document` at `path`) whose paths have their folder and place."""
    changes: dict[str, Any] = {}
    for name in model.model_fields_set:
        value = getattr(model, name)
        key = type(model).model_fields[name].alias or name
        changed = _anchored_value(value, document, (*path, key))
        if changed is not value:
            changes[name] = changed
    return model.model_copy(update=changes) if changes else model


def _anchored_value(value: Any, document: Document, path: KeyPath) -> Any:
    """The value with its paths anchored; the same object where it holds none."""
    if isinstance(value, RecipePath):
        return _anchored_path(value, document, path)
    if isinstance(value, BaseModel):
        return anchored(value, document, path)
    if isinstance(value, Mapping):
        items = {key: _anchored_value(item, document, (*path, key)) for key, item in value.items()}
        return items if any(items[key] is not value[key] for key in value) else value
    if isinstance(value, tuple | list):
        parts = [_anchored_value(item, document, (*path, i)) for i, item in enumerate(value)]
        return type(value)(parts) if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    return value


def _anchored_path(value: RecipePath, document: Document, path: KeyPath) -> RecipePath:
    if not _is_written(document, path):
        path = path[:-1]  # a single value where a list may stand
    place = document.place(path)
    expansion = document.expansions.get(path)
    from_environment = expansion is not None and expansion.from_environment
    written = expansion.raw if expansion is not None else value.text
    root = document.values[()].folder
    if place.folder != root and not from_environment and not Path(value.text).is_absolute():
        way = os.path.relpath(place.folder, root).replace(os.sep, "/").replace("$", "$$")
        written = f"{way}/{written}"
    folder = folder_of(value.text, place, from_environment=from_environment)
    return RecipePath(text=value.text, written=written, folder=folder, where=str(place))


def _is_written(document: Document, path: KeyPath) -> bool:
    return path in document.values
