"""The recipe's gates: limits that a build must keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from nnkit.verify.metrics import Distance


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

    def __str__(self) -> str:
        relation = "at most" if self.name == "max_abs" else "at least"
        return f"{self.name}: {self.measured:.6g} measured, {relation} {self.limit:g} demanded"


def check_gates(limits: Mapping[str, float], outputs: Distance) -> tuple[GateResult, ...]:
    """Compare the outputs' distance with the limits (`cosine`, `sqnr_db` from below, `max_abs` from above).

    A distance that is not a number passes no gate.
    """
    results = []
    for name, limit in limits.items():
        measured = float(getattr(outputs, name))
        passed = measured <= limit if name == "max_abs" else measured >= limit
        results.append(GateResult(name, limit, measured, passed))
    return tuple(results)
