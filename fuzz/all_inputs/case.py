"""What is compared: a program of one operator, inputs with every value or pair of values, what has to come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Case:
    """expected: exact outputs, of the output's shape.

    off_by: steps by which an output may differ, one or of the output's shape, where the definition is a real number:
    half a step is the rounding, the rest follows from the bits that the operator documents.
    inputs: how many values or pairs of values went in.
    """

    target: Literal["gap8", "ansi_c"]
    name: str
    program: Any
    given: dict[str, Values]
    expected: Values
    inputs: int
    off_by: float | Values = 0.0


@dataclass(frozen=True)
class Arithmetic:
    """Numbers and programs of one kind. tensor: of a name, a shape and a format."""

    target: Literal["gap8", "ansi_c"]
    program: Callable[..., Any]
    tensor: Callable[[str, tuple[int, ...], Any], Any]

    def case(
        self,
        name: str,
        op: Any,
        given: Sequence[tuple[Values, Any]],
        out: tuple[Values, Any],
        off_by: float | Values = 0.0,
        *,
        inputs: int = 1 << 16,
    ) -> Case:
        """The case of one op. given, out: stored values with their formats. inputs: mostly all pairs of bytes."""
        names = tuple(f"x{index}" for index in range(len(given)))
        tensors = {
            own: self.tensor(own, values.shape, form)
            for own, (values, form) in zip([*names, "y"], [*given, out], strict=True)
        }
        program = self.program("net", tensors, (op,), names, ("y",))
        stored = {own: values.astype(form.dtype) for own, (values, form) in zip(names, given, strict=True)}
        return Case(self.target, name, program, stored, out[0], inputs, off_by)


def nearest(numerator: Values, denominator: int) -> Values:
    """The integer nearest to a quotient, of two equally near ones the upper; exact for integers of any size."""
    doubled: Values = 2 * numerator + denominator
    return doubled // (2 * denominator)


def exact(values: Values) -> Values:
    """The same integers, as numbers that never overflow."""
    return values.astype(object)


def clamp(values: Values, low: int, high: int) -> Values:
    """Between two bounds, both included."""
    return np.minimum(np.maximum(values, low), high)


def pairs(low: int, high: int) -> tuple[Values, Values]:
    """Two arrays [1, n, n] that together hold every pair of the integers low to high."""
    each = np.arange(low, high + 1)
    first, second = np.meshgrid(each, each, indexing="ij")
    return first[None], second[None]


def side_by_side(first: Values, second: Values) -> Values:
    """[1, n, n] twice -> [1, n, 2 n]: each pair in neighbouring columns."""
    return np.stack([first, second], axis=-1).reshape(1, first.shape[1], -1)


def all_of(low: int, high: int) -> Values:
    """[1, 256, n]: every integer from low to high."""
    return np.arange(low, high + 1).reshape(1, 256, -1)


def three(first: Values, second: Values, third: int) -> Values:
    """[1, n, n] twice and a number -> [n, n, 3]: rows of three."""
    return np.stack([first[0], second[0], np.full_like(first[0], third)], axis=-1)


def normalized(rows: Values, step: float, epsilon: float, gain: Values, offset: Values) -> tuple[Values, Values]:
    """Rows of real numbers with mean 0 and variance 1, times `gain`, plus `offset`; and how far off integers may be.

    step: what one stored integer of the rows means. The mean is known to half a sixteenth of it, and the variance by
    the same, which weighs the more the less the row's values differ.
    """
    apart = rows - rows.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((apart**2).mean(axis=-1, keepdims=True) + epsilon)
    z = apart / deviation
    unsure = step / 32 / deviation
    return z * gain + offset, 0.5 + 1e-3 + np.abs(gain) * (unsure + np.abs(z) * unsure)


def io(count: int = 1) -> dict[str, Any]:
    """Name, inputs and output of the one op of a case's program."""
    return {"name": "layer", "inputs": tuple(f"x{index}" for index in range(count)), "output": "y"}
