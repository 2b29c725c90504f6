"""Constraints as small functions whose docstring is the message, the reason and the documentation.

A constraint takes an op, the program and the target's limits and returns whether the op is within them. Its
docstring is a template filled from the limits: "kernel sides must be within {kernel_range}".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from nnkit.program import OpBase, Program
from nnkit.quantize.lowering import Refusal, refusal_error

Limits: TypeAlias = Mapping[str, int]
Constraint: TypeAlias = Callable[[OpBase, Program, Limits], bool]


def constraint_text(constraint: Constraint, limits: Limits) -> str:
    """The constraint in words, with the limits filled in."""
    template = " ".join((inspect.getdoc(constraint) or constraint.__name__).split())
    return template.format(**{name: f"{value:,}" for name, value in limits.items()})


def check_constraints(program: Program, constraints: Sequence[Constraint], limits: Limits) -> None:
    """Raise one ModelError that lists every op outside a constraint, with the constraint's text as the reason."""
    refusals = [
        Refusal(op.name, op.kind, constraint_text(constraint, limits))
        for op in program.ops
        for constraint in constraints
        if not constraint(op, program, limits)
    ]
    if refusals:
        raise refusal_error(refusals)
