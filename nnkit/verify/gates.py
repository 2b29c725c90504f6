"""The recipe's gates: limits that a build must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nnkit.verify.metrics import Distance
from nnkit.verify.tasks.score import TaskScore

_FROM_ABOVE = ("max_abs", "drop")
_DROPPING = ("top1_accuracy", "top5_accuracy", "recall", "verification_accuracy", "mean_average_precision")
"""Metrics of which more is better and that the float network has too."""


@dataclass(frozen=True)
class GateResult:
    """One gate: what was asked, what was measured, whether it holds."""

    name: str
    limit: float
    measured: float
    passed: bool

    def as_json(self) -> dict[str, object]:
        """The entry of `gates` in a report."""
        measured = self.measured if math.isfinite(self.measured) else None
        return {"name": self.name, "limit": self.limit, "measured": measured, "passed": self.passed}

    @property
    def relation(self) -> str:
        """How the measured value has to lie to the limit."""
        return "at most" if self.name in _FROM_ABOVE else "at least"

    def __str__(self) -> str:
        return f"{self.name}: {self.measured:.6g} measured, {self.relation} {self.limit:g} demanded"


def check_gates(
    limits: Mapping[str, float], outputs: Distance, task: TaskScore | None = None
) -> tuple[GateResult, ...]:
    """Compare with the limits: the outputs' distance, and the metrics of the recipe's task.

    `max_abs` and `drop` (the most that a metric lies below the float network's) are limits from above, all others
    from below. What is not a number, or was not measured, passes no gate.
    """
    measured = {name: float(getattr(outputs, name)) for name in ("cosine", "sqnr_db", "max_abs")}
    if task is not None:
        measured |= task.values()
        drops = [m.float_value - m.value for m in task.metrics if m.float_value is not None and m.name in _DROPPING]
        measured["drop"] = max(drops, default=float("nan"))
    results = []
    for name, limit in limits.items():
        value = measured.get(name, float("nan"))
        passed = value <= limit if name in _FROM_ABOVE else value >= limit
        results.append(GateResult(name, limit, value, passed))
    return tuple(results)
