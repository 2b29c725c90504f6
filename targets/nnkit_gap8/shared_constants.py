"""Stripes of a layer mostly have the same parameters: one constant serves all calls that take equal ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnkit.c.fixed.layer import Call, Constant


def with_shared_constants(calls: Mapping[str, tuple[Call, ...]]) -> dict[str, tuple[Call, ...]]:
    """By op the same calls; a constant stands with the first call that takes it, and later ones name it.

    A constant that points to another one is equal only where that is the same.
    """
    names: dict[tuple[str, tuple[str, ...]], str] = {}
    return {op: tuple(_with_known(call, names) for call in of_op) for op, of_op in calls.items()}


def _with_known(call: Call, names: dict[tuple[str, tuple[str, ...]], str]) -> Call:
    kept: list[Constant] = []
    renamed: dict[str, str] = {}
    for constant in call.constants:
        lines = tuple((_pointing(values, renamed), comment) for values, comment in constant.lines)
        array = constant.name.endswith("[]")
        key = f"{constant.type}{'[]' * array}", tuple(values for values, _ in lines)
        name = constant.name.removesuffix("[]")
        known = names.setdefault(key, name)
        if known == name:
            kept.append(replace(constant, lines=lines))
        else:
            renamed[name] = known
    return replace(call, layer=renamed.get(call.layer, call.layer), constants=tuple(kept))


def _pointing(values: str, renamed: Mapping[str, str]) -> str:
    """A field that is another constant's name, as it is called now."""
    target = values.removeprefix("&")
    return values if target not in renamed else values[: len(values) - len(target)] + renamed[target]
