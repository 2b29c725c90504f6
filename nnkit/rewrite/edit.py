"""What an edit is: a change of what the network computes, asked for by the recipe and held to what it says.

A rewrite keeps every number; an edit changes the inputs, the outputs or the layers between them. It still has to
say what the new outputs are in terms of the old network (`expected`), and the runner compares them by ONNX Runtime.
An edit that cannot be made is an error, not a decline: the recipe asked for it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit.samples import NetworkInputs

Values: TypeAlias = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Expected:
    """What an output must be: the value in float64, and the magnitude that its float32 rounding is relative to.

    For a sum of products that is the largest sum of their magnitudes; for a value that is copied, its own.
    """

    value: NDArray[Any]
    magnitude: float


@dataclass(frozen=True, eq=False)
class Edited:
    """The network after an edit.

    effect: what the outputs (or inputs) are now, one sentence for the report.
    fetch: values of the network before that `expected` needs.
    expected: those values of one sample -> what each output of the new network must be on `feeds(sample)`.
    feeds: a sample of the old network -> one of the new.
    """

    model: Model
    sites: tuple[str, ...]
    effect: str
    fetch: tuple[str, ...]
    expected: Callable[[Values], Mapping[str, Expected]]
    feeds: Callable[[NetworkInputs], NetworkInputs]


@dataclass(frozen=True)
class Edit:
    """One edit with its options: name as in recipes, summary (its first line is a title), and how it is made.

    apply: raises RecipeError where the options do not suit the network, ModelError where the network cannot be
        edited so.
    """

    name: str
    summary: str
    apply: Callable[[Model], Edited]

    @property
    def title(self) -> str:
        """The first line of the summary, without its final period."""
        return self.summary.strip().splitlines()[0].rstrip(".")


def same_feeds(sample: NetworkInputs) -> NetworkInputs:
    """For an edit that leaves the inputs alone."""
    return sample


def copied(value: NDArray[Any]) -> Expected:
    """An output that must be a value of the old network."""
    return Expected(value, float(np.abs(value).max(initial=0.0)))


def affine_expected(value: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any]) -> Expected:
    """W x + b for x of any shape with weight [K, D], bias [K]; as [K] float64."""
    x = np.asarray(value, np.float64).reshape(-1)
    terms = np.abs(weight) @ np.abs(x) + np.abs(bias)
    return Expected(weight @ x + bias, float(terms.max(initial=0.0)))
