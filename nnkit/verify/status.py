"""From gates and runners to the status of a build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnkit.build_status import Status
from nnkit.verify.artifact import ArtifactVerdict
from nnkit.verify.gates import GateResult


@dataclass(frozen=True)
class RequiredRunner:
    """A runner that the recipe's `verify.require` names. reason: why it did not run, empty where it did."""

    how: str
    ran: bool
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """The entry of `required` in a report."""
        return {"how": self.how, "ran": self.ran} | ({"reason": self.reason} if self.reason else {})


def required_runners(names: Sequence[str], artifacts: Sequence[ArtifactVerdict]) -> tuple[RequiredRunner, ...]:
    """What became of the required runners. Names that this target has no runner of are another target's."""
    verdicts = {verdict.how: verdict for verdict in artifacts}
    run_here = [verdicts[name] for name in names if name in verdicts]
    return tuple(RequiredRunner(verdict.how, verdict.ran, verdict.reason) for verdict in run_here)


def status_of(
    gates: Sequence[GateResult], artifacts: Sequence[ArtifactVerdict], required: Sequence[RequiredRunner]
) -> Status:
    """`ok` only where every gate passed and something has executed the artifact and agreed with the Program."""
    if any(verdict.mismatches for verdict in artifacts):
        return "mismatch"
    if not all(gate.passed for gate in gates) or not all(each.ran for each in required):
        return "gate_failed"
    return "ok" if any(verdict.ran for verdict in artifacts) else "unproven"
