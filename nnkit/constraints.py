"""Constraints: functions whose docstring is the message, the remedy and the line in the docs.

A constraint returns what is beyond it, in words that follow "found", or None where all is well:

    def kernels_are_small(op, program, limits):
        \"\"\"kernel sides are at most {max_kernel}
        fix: use a smaller window, or two convolutions\"\"\"
        side = max(op.window.kernel_h, op.window.kernel_w)
        return f"a side of {side}" if side > limits.max_kernel else None

Numbers in braces are fields of the target's limits. What a constraint is given is its target's affair: an op with its
program, a layer with its neighbours, all segments. All violations are told in one error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TypeAlias, TypeVar

from nnkit.errors import LayersNotTakenError
from nnkit.program import OpBase, Program
from nnkit.repetition import runs
from nnkit.visible import Visible, visible, visible_item, with_lines

Constraint: TypeAlias = Callable[..., str | None]


@dataclass(frozen=True)
class Limits:
    """Base of a target's limits: each field is a number, or several, that constraints name in braces."""

    @property
    def texts(self) -> dict[str, str]:
        """The numbers as sentences have them, by name."""
        return {each.name: _text(getattr(self, each.name)) for each in fields(self)}


LimitsT = TypeVar("LimitsT", bound=Limits)
OpConstraint: TypeAlias = Callable[[OpBase, Program, LimitsT], str | None]


@dataclass(frozen=True)
class Violation:
    """What is beyond a constraint.

    place: the layer, or what else is limited. kind: of the layer; may be empty. reason: the constraint in words.
    actual: what was found instead. movable: the CPU may run the layer instead.
    """

    place: str
    kind: str
    reason: str
    remedy: str
    actual: str = ""
    movable: bool = False


def constraint_text(constraint: Constraint, limits: Limits) -> str:
    """The constraint in words, with the numbers filled in."""
    return _parts(constraint, limits)[0]


def constraint_remedy(constraint: Constraint, limits: Limits) -> str:
    """What its docstring says after `fix:`; empty where it says nothing."""
    return _parts(constraint, limits)[1]


def violation(
    constraint: Constraint, actual: str, place: str, kind: str, limits: Limits, *, movable: bool = False
) -> Violation:
    """The violation of a constraint; actual: as the constraint returned it."""
    reason, remedy = _parts(constraint, limits)
    return Violation(place, kind, reason, remedy, actual, movable)


def check_constraints(
    program: Program,
    constraints: Sequence[OpConstraint[LimitsT]],
    limits: LimitsT,
    *,
    whose: str,
    documentation: str = "",
) -> None:
    """Raise one ModelError with every op outside a constraint. whose: the hardware, in the title."""
    violations = [
        violation(constraint, actual, op.name, op.kind, limits)
        for constraint in constraints
        for op in program.ops
        if (actual := constraint(op, program, limits)) is not None
    ]
    raise_violations(violations, whose, documentation)


def raise_violations(violations: Sequence[Violation], whose: str, documentation: str = "") -> None:
    """Raise one ModelError where there are any. whose: the hardware, in the title."""
    if violations:
        more = f" ({documentation} has all limits)" if documentation else ""
        title = counted("limit", len(violations), whose, "exceeded")
        raise violations_error(violations, title, f"change the network or the options as said{more}")


def counted(what: str, count: int, whose: str, done: str) -> str:
    """The title of an error: "2 limits of the chip are exceeded"."""
    return f"{count} {what}{'s' if count > 1 else ''} of {whose} {'are' if count > 1 else 'is'} {done}"


def violations_error(violations: Sequence[Violation], title: str, remedy: str) -> LayersNotTakenError:
    """All violations in one error, each with its layers, what was found, and its remedy.

    What layers have in common is said once, and so is what repeats along the network.
    """
    together: dict[tuple[str, str], list[Violation]] = {}
    for each in violations:
        together.setdefault((each.reason, each.remedy), []).append(each)
    lines = ""
    for (reason, own_remedy), those in together.items():
        common = len({each.actual for each in those}) == 1
        actual = f"; found {those[0].actual}" if common and those[0].actual else ""
        names = _places(those, with_actual=not common)
        places = f"{visible_item(names[0])}:" if len(names) == 1 else f"{_wrapped(names)}:\n   "
        own_fix = f"\n    fix: {visible(own_remedy)}" if own_remedy else ""
        lines += f"\n  {places} {visible(reason + actual)}{own_fix}"
    return LayersNotTakenError(
        Visible(f"{visible(title)}:{lines}"), [each.place for each in violations], remedy=remedy
    )


def _parts(constraint: Constraint, limits: Limits) -> tuple[str, str]:
    template = " ".join((inspect.getdoc(constraint) or constraint.__name__).split())
    reason, _, remedy = template.format(**limits.texts).partition(" fix: ")
    return reason, remedy


def _text(number: float | str | tuple[float, ...]) -> str:
    if isinstance(number, tuple):
        return ", ".join(str(Fraction(each)) for each in number)
    if isinstance(number, str):
        return number
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def _places(violations: Sequence[Violation], *, with_actual: bool) -> list[str]:
    """The layers with their types; where a sequence of types repeats, the first one and how often it does."""
    names = []
    for run in runs(violations, lambda each: each.kind):
        first = [_place(each, with_actual=with_actual) for each in run.items]
        if run.times > 1:
            first[0] = f"{run.times} times, the first: {first[0]}"
        names += first
    return names


def _place(each: Violation, *, with_actual: bool) -> str:
    """The layer with its type, and what was found where layers differ in that."""
    notes = [note for note in (each.kind, f"found {each.actual}" if with_actual and each.actual else "") if note]
    return f"{each.place} ({'; '.join(notes)})" if notes else each.place


def _wrapped(names: Sequence[str], width: int = 110) -> Visible:
    """Names with commas, in lines; a name is not broken."""
    lines = [""]
    for index, name in enumerate(names):
        text = name if index == len(names) - 1 else f"{name}, "
        if lines[-1] and len(lines[-1]) + len(text) > width:
            lines.append("")
        lines[-1] += text
    first, *others = (line.rstrip() for line in lines)
    return with_lines(visible_item(first), others)
