"""The verification inputs whose outputs lie farthest from the float network's, with both answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.distance import Distance, DistanceSum

WORST = 10
_LARGEST = 3  # values of an output that an answer tells
_SHORT = 4096  # outputs with more values are pictures, of which no single value is an answer


@dataclass(frozen=True)
class Answer:
    """The largest values of one output, as (index, value in real units), in both networks."""

    output: str
    float_values: tuple[tuple[int, float], ...]
    program_values: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class InputError:
    """One input. index: among the verification inputs. image: path of its first file, empty where it is none."""

    index: int
    source: str
    image: str
    distance: Distance
    answers: tuple[Answer, ...]

    def as_json(self, picture: str | None) -> dict[str, Any]:
        """The entry of `worst` in a report. picture: path of its picture below the build folder."""
        entry: dict[str, Any] = {"input": self.source, "index": self.index, **self.distance.as_json()}
        if picture is not None:
            entry["picture"] = picture
        entry["answers"] = [
            {"output": a.output, "float": _pairs(a.float_values), "program": _pairs(a.program_values)}
            for a in self.answers
        ]
        return entry


def input_error(
    index: int, source: str, image: str, outputs: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]
) -> InputError:
    """outputs: by name the float network's values and the Program's, real units."""
    total = DistanceSum()
    for expected, got in outputs.values():
        total.add(got, expected)
    answers = tuple(
        Answer(name, _largest(expected), _largest(got))
        for name, (expected, got) in outputs.items()
        if expected.size <= _SHORT
    )
    return InputError(index, source, image, total.result(), answers)


def worst_of(errors: Sequence[InputError]) -> list[InputError]:
    """At most `WORST` of them, the worst first; equal ones in the order of the inputs."""
    return sorted(errors, key=lambda error: (_quality(error.distance), error.index))[:WORST]


def _quality(distance: Distance) -> float:
    return -math.inf if math.isnan(distance.sqnr_db) else distance.sqnr_db


def _largest(values: NDArray[Any]) -> tuple[tuple[int, float], ...]:
    flat = np.asarray(values, np.float64).ravel()
    best = np.argsort(-flat, kind="stable")[:_LARGEST]
    return tuple((int(i), float(f"{flat[i]:.5g}")) for i in best)


def _pairs(values: tuple[tuple[int, float], ...]) -> list[list[float]]:
    return [list(value) for value in values]
