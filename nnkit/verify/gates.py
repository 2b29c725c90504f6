"""The recipe's gates: limits that a build must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnkit.distance import Distance

if TYPE_CHECKING:
    from nnkit.verify.tasks.score import TaskScore

DISTANCES = ("cosine", "sqnr_db", "max_abs")
_FROM_ABOVE = ("max_abs", "drop")
_ROUNDING = 1e-12
"""What a figure may differ from its limit by the rounding of float64 sums and differences, relative to the limit."""
_DROPPING = ("top1_accuracy", "top5_accuracy", "recall", "verification_accuracy", "mean_average_precision")
"""Metrics of which more is better and that the float network has too."""


@dataclass(frozen=True)
class GateResult:
    """One gate: what was asked, what was measured, whether it holds.

    float_value: the float network's own figure, of metrics that it has too. reason: why it could not be measured.
    """

    name: str
    limit: float
    measured: float
    passed: bool
    float_value: float | None = None
    reason: str = ""

    def as_json(self) -> dict[str, object]:
        """The entry of `gates` in a report."""
        measured = self.measured if math.isfinite(self.measured) else None
        entry = {"name": self.name, "limit": self.limit, "measured": measured, "passed": self.passed}
        entry |= {"reason": self.reason} if self.reason else {}
        return entry if self.float_value is None else {**entry, "float": self.float_value}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> GateResult:
        """Back from a report. What is null there was infinite where it passed, and not a number elsewhere."""
        measured = entry["measured"]
        if measured is None:
            measured = math.inf if entry["passed"] else math.nan
        return cls(
            entry["name"], entry["limit"], measured, entry["passed"], entry.get("float"), entry.get("reason", "")
        )

    @property
    def in_words(self) -> str:
        """What was measured, with as many digits as it takes to see on which side of the limit, and of 1, it lies."""
        if self.reason:
            return f"not measured ({self.reason})"
        digits = next(d for d in range(6, 18) if self._same_side(float(f"{self.measured:.{d}g}")) or d == 17)
        beside = "" if self.float_value is None else f" (float {self.float_value:.6g})"
        return f"{self.measured:.{digits}g}{beside}"

    def _same_side(self, shown: float) -> bool:
        return math.isnan(shown) or all(
            _side(shown, mark) == _side(self.measured, mark) for mark in (self.limit, 1.0)
        )

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {limit_in_words(self.name, self.limit)} demanded, {self.in_words}"
        return f"{self.name}: {self.in_words} measured, {limit_in_words(self.name, self.limit)} demanded"


def _side(value: float, limit: float) -> int:
    """-1 below the limit, 1 above it, 0 at it."""
    if math.isclose(value, limit, rel_tol=_ROUNDING):
        return 0
    return 1 if value > limit else -1


def relation(name: str) -> str:
    """How a gate's measured value has to lie to its limit."""
    return "at most" if name in _FROM_ABOVE else "at least"


def limit_in_words(name: str, limit: float) -> str:
    """`at least 0.995`."""
    return f"{relation(name)} {limit:.12g}"


def check_gates(
    limits: Mapping[str, float], outputs: Distance, task: TaskScore | None = None, unproven: str = ""
) -> tuple[GateResult, ...]:
    """Compare with the limits: the outputs' distance, and the metrics of the recipe's task.

    `max_abs` and `drop` (the most that a metric lies below the float network's) are limits from above, all others
    from below. What is not a number, or was not measured, passes no gate.

    unproven: why the distance says nothing of some output; then no gate on it passes.
    """
    measured = {name: float("nan") if unproven else float(getattr(outputs, name)) for name in DISTANCES}
    floats: dict[str, float] = {}
    if task is not None:
        measured |= task.values()
        floats = {m.name: m.float_value for m in task.metrics if m.float_value is not None}
        drops = [floats[m.name] - m.value for m in task.metrics if m.name in floats and m.name in _DROPPING]
        measured["drop"] = max(drops, default=float("nan"))
    results = []
    for name, limit in limits.items():
        value, beside = measured.get(name, float("nan")), floats.get(name)
        passed = not math.isnan(value) and _side(value, limit) != (1 if name in _FROM_ABOVE else -1)
        known = beside if beside is not None and math.isfinite(beside) else None
        results.append(GateResult(name, limit, value, passed, known, unproven if name in DISTANCES else ""))
    return tuple(results)


FLOAT_FAILS = (
    "quantisation is not the cause: look at mean, scale, color and size of the preprocessing, and at the labels; or "
    "lower the gate, or gate the loss with `drop`"
)
"""What to do where the float network itself fails a gate."""


def float_fails_alone(gates: Sequence[GateResult]) -> str:
    """That no build can pass these gates, by the float network's own figures; empty where other gates fail too."""
    failed, beyond = [gate for gate in gates if not gate.passed], beyond_the_float_network(gates)
    if not failed or len(beyond) < len(failed):
        return ""
    figures = ", ".join(f"{gate.name} {gate.float_value:.6g}, below {gate.limit:.12g}" for gate in beyond)
    return f"the float network itself has {figures}"


def beyond_the_float_network(gates: Sequence[GateResult]) -> tuple[GateResult, ...]:
    """The gates that fail and that the float network fails too: no precision reaches them."""
    return tuple(
        gate for gate in gates if not gate.passed and gate.float_value is not None and gate.float_value < gate.limit
    )
