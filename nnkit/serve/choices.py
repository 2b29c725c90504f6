"""What a sender chooses for a target: its chip, where a recipe must name one, and its precision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from nnkit.target import AnyTarget, working_targets

_PRECISION = "precision"


def target_choices() -> list[dict[str, Any]]:
    """Every installed target with its chips, each with the precisions it has; the usual one stands first.

    `precisions` of the target are those of one without chips to choose between.
    """
    return [_choices(name, target) for name, target in sorted(working_targets()[0].items())]


def chips_of(target: AnyTarget) -> Mapping[str, Mapping[str, Any]]:
    """The chips that builds differ by, and the options that each stands for."""
    return {name: options for name, options in target.chips().items() if options}


def _choices(name: str, target: AnyTarget) -> dict[str, Any]:
    chips = chips_of(target)
    return {
        "name": name,
        "about": target.summary,
        "chips": [{"name": chip, "precisions": _precisions(target, options)} for chip, options in chips.items()],
        "precisions": [] if chips else _precisions(target, {}),
    }


def _precisions(target: AnyTarget, options: Mapping[str, Any]) -> list[str]:
    field = target.options.model_fields.get(_PRECISION)
    named = [] if field is None else [str(each) for each in get_args(field.annotation)]
    taken = [each for each in named if _is_taken(target, {**options, _PRECISION: each})]
    return sorted(taken, key=lambda each: field is not None and each != field.default)


def _is_taken(target: AnyTarget, options: Mapping[str, Any]) -> bool:
    try:
        target.options.model_validate(dict(options))
    except ValidationError:
        return False
    return True
