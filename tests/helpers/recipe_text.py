"""Recipes with values put into them, whatever they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """The recipe with values at dotted keys; sections on the way are made. No `$` in them names a variable."""
    data = yaml.safe_load(text)
    for dotted, value in values.items():
        *sections, last = dotted.split(".")
        inner = data
        for key in sections:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        inner[last] = _plain(value)
    # Quoted and tagged throughout: what text is must not depend on how a version of YAML reads it.
    return str(yaml.safe_dump(data, default_style='"', sort_keys=False))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
