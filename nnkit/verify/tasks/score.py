"""A metric of what the network is for, of the float network and of the quantised one side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numpy.typing import NDArray

TaskReading: TypeAlias = Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]
"""What a task reads of a network's outputs in real units, by name: one array. It can be pickled."""


@dataclass(frozen=True)
class OneOutput:
    """A `TaskReading`: one output as it is."""

    name: str

    def __call__(self, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The output."""
        return values[self.name]


@dataclass(frozen=True, eq=False)
class Outputs:
    """What the task reads of a network for every verification image, real units.

    images: what names the image in label files: the end of its path, e.g. `s1/3.pgm`.
    """

    images: tuple[str, ...]
    values: tuple[NDArray[Any], ...]


def output_pairs(
    images: Sequence[str], values: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> tuple[Outputs, Outputs]:
    """The float network's and the quantised one's outputs, from pairs of both for each image."""
    return (
        Outputs(tuple(images), tuple(pair[0] for pair in values)),
        Outputs(tuple(images), tuple(pair[1] for pair in values)),
    )


@dataclass(frozen=True)
class Metric:
    """One metric. float_value: None where it compares the two networks with each other."""

    name: str
    value: float
    float_value: float | None = None

    def as_json(self) -> dict[str, float | str | None]:
        """Numbers for a report; what is not finite is null."""
        number = self.float_value
        return {
            "name": self.name,
            "program": self.value if math.isfinite(self.value) else None,
            "float": number if number is not None and math.isfinite(number) else None,
        }


@dataclass(frozen=True, eq=False)
class TaskScore:
    """All metrics of a task. facts: what they rest on (numbers of images, pairs, boxes).

    drawing: what a picture of both networks' results needs, as JSON data; its form is the task's own.
    """

    kind: str
    metrics: tuple[Metric, ...]
    facts: Mapping[str, float]
    drawing: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """The quantised network's metrics by name, for gates."""
        return {metric.name: metric.value for metric in self.metrics}

    def as_json(self) -> dict[str, Any]:
        """The entry `verify.task` of a report."""
        return {"kind": self.kind, "metrics": [m.as_json() for m in self.metrics], "facts": dict(self.facts)}


def matching(name: str, images: Sequence[str]) -> list[int]:
    """Indices of the images that a name in a label file stands for: the whole path, or its last parts."""
    wanted = name.strip().replace("\\", "/")
    return [i for i, image in enumerate(images) if image == wanted or image.endswith("/" + wanted)]
