"""What reads its input in another order of elements, by a constant step along every axis: `transpose`, `slice`."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import TypeVar

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.move import move_function
from nnkit.c.fixed.operator import Function, OneCallC
from nnkit.program import Program, Slice, Transpose

OpT = TypeVar("OpT", Transpose, Slice)

_AXES = 4


class GatherC(OneCallC[OpT]):
    """`struct nnkit_gather`."""

    @abstractmethod
    def walk(self, op: OpT, program: Program) -> tuple[int, tuple[int, ...]]:
        """The first element that is read, and how many elements of the input each output axis steps over."""

    def function(self, op: OpT, program: Program) -> Function:
        return move_function("gather", program.tensors[op.output])

    def constants(self, op: OpT, program: Program, name: str) -> tuple[Constant, ...]:
        first, steps = self.walk(op, program)
        sizes, steps = _four_axes(program.tensors[op.output].shape, steps)
        return (
            Constant(
                "struct nnkit_gather",
                name,
                (
                    (f"{{{', '.join(map(str, sizes))}}}", "output sizes"),
                    (f"{{{', '.join(map(str, steps))}}}", "input elements from one to the next along each"),
                    (f"{first}", "first input element"),
                ),
            ),
        )


def element_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many elements lie from one to the next along each axis of a tensor without gaps."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _four_axes(sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes behind the first that are walked as one are one, the longest innermost; axes of one element fill up.

    The first stays by itself: cores share it.
    """
    merged: list[tuple[int, int]] = []
    for size, step in zip(sizes[1:], steps[1:], strict=True):
        if merged and merged[-1][1] == size * step:
            merged[-1] = merged[-1][0] * size, step
        elif size > 1:
            merged.append((size, step))
    axes = [(sizes[0], steps[0]), *[(1, 0)] * (_AXES - 1 - len(merged)), *merged]
    return tuple(size for size, _ in axes), tuple(step for _, step in axes)
