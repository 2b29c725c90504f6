"""What all models of a recipe share: strictness, and problems that carry a place and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Fault(NamedTuple):
    """Something wrong that a validator found.

    Attributes:
        at: the way from the validated value to the culprit, e.g. `("mean",)`; empty for the value itself.
        reason: what is wrong, one sentence without a final stop.
        remedy: what would be right.
    """

    at: tuple[str | int, ...]
    reason: str
    remedy: str


FAULT_TYPE = "nnkit_recipe"


def fault(reason: str, remedy: str, at: tuple[str | int, ...] = ()) -> PydanticCustomError:
    """The exception for a validator to raise; the loader adds file, line and column."""
    return faults([Fault(at, reason, remedy)])


def faults(several: Sequence[Fault]) -> PydanticCustomError:
    """As `fault`, for several things wrong with one value."""
    summary = "; ".join(f.reason for f in several)
    return PydanticCustomError(FAULT_TYPE, "{summary}", {"summary": summary, "faults": tuple(several)})


def faults_of(context: dict[str, Any]) -> tuple[Fault, ...]:
    """The faults in the context of an error raised by `fault` or `faults`."""
    return tuple(context["faults"])


class RecipeModel(BaseModel):
    """A section of a recipe: no unknown keys, no infinities, and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
