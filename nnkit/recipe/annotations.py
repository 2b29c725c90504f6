"""What the models say about one place of a recipe: the field there, and the keys known there."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nnkit.recipe.problems import KeyPath


class Spot:
    """The models' view of the value at one path.

    Attributes:
        field: the model field the value belongs to, or None where it is an item of a list or a mapping.
        types: the types the value may have.
    """

    def __init__(self, field: FieldInfo | None, annotation: Any) -> None:
        self.field = field
        self.types = tuple(_members(annotation))

    def known_keys(self, data: Any) -> list[str]:
        """The keys of the section here; of a section of several kinds, those of the kind that `data` names."""
        models = _narrowed([t for t in self.types if _is_model(t)], data)
        return list(dict.fromkeys(_name(model, name) for model in models for name in model.model_fields))

    def tags(self, key: str) -> list[str]:
        """What `key` may say in a section of several kinds, as `kind` does."""
        fields = [model.model_fields[key] for model in self.types if _is_model(model) and key in model.model_fields]
        return [
            str(tag)
            for field in fields
            if get_origin(field.annotation) is Literal
            for tag in get_args(field.annotation)
        ]


def spot_at(model: type[BaseModel], data: Any, path: KeyPath) -> Spot | None:
    """What `model` says of the value at `path` in `data`; None where the path leads out of the models."""
    spot = Spot(None, model)
    for part in path:
        following = next(_below(spot, data, part), None)
        if following is None:
            return None
        spot = following
        data = _item(data, part)
    return spot


def _item(data: Any, part: str | int) -> Any:
    if isinstance(data, dict):
        return data.get(part)
    return data[part] if isinstance(data, list) and isinstance(part, int) and part < len(data) else None


def _below(spot: Spot, data: Any, part: str | int) -> Iterator[Spot]:
    for model in _narrowed([t for t in spot.types if _is_model(t)], data):
        for name, info in model.model_fields.items():
            if part == _name(model, name):
                yield Spot(info, info.annotation)
    for candidate in spot.types:
        arguments = get_args(candidate)
        if not arguments or _is_model(candidate):
            continue
        if isinstance(part, str) and len(arguments) == 2 and arguments[1] is not Ellipsis:
            yield Spot(None, arguments[1])
        elif isinstance(part, int):
            fixed = get_origin(candidate) is tuple and Ellipsis not in arguments
            yield Spot(None, arguments[min(part, len(arguments) - 1)] if fixed else arguments[0])


def _members(annotation: Any) -> Iterator[Any]:
    """The alternatives of a type, without None, aliases and metadata."""
    origin = get_origin(annotation)
    if hasattr(annotation, "__value__"):  # a `type` alias of Python 3.12
        yield from _members(annotation.__value__)
    elif origin is Annotated:
        yield from _members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif annotation is not type(None):
        yield annotation


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _name(model: type[BaseModel], name: str) -> str:
    return model.model_fields[name].alias or name


def _narrowed(models: list[type[BaseModel]], data: Any) -> list[type[BaseModel]]:
    """The models whose one-valued fields (`kind`) agree with the data; all where none does."""
    fitting = [model for model in models if isinstance(data, dict) and _agrees(model, data)]
    return fitting or models


def _agrees(model: type[BaseModel], data: dict[str, Any]) -> bool:
    for name, info in model.model_fields.items():
        key = _name(model, name)
        if get_origin(info.annotation) is Literal and key in data and data[key] not in get_args(info.annotation):
            return False
    return True
