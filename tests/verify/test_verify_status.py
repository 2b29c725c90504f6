"""The status of a build, for every combination of gates and runners that matters."""

from __future__ import annotations

import pytest

from nnkit.build_status import Status, exit_code
from nnkit.verify.artifact import ArtifactVerdict
from nnkit.verify.gates import GateResult
from nnkit.verify.status import required_runners, status_of

RAN = ArtifactVerdict("host", "exact", values=5)
DIFFERS = ArtifactVerdict("host", "exact", values=5, mismatches=1)
NOT_RUN = ArtifactVerdict("rv32", "not_run", reason="no compiler")
PASSED, FAILED = GateResult("cosine", 0.9, 0.99, True), GateResult("cosine", 0.9, 0.8, False)


@pytest.mark.parametrize(
    ("gates", "artifacts", "require", "status", "code"),
    [
        ([], [RAN], [], "ok", 0),
        ([PASSED], [RAN, NOT_RUN], [], "ok", 0),
        ([PASSED], [NOT_RUN], [], "unproven", 6),
        ([], [], [], "unproven", 6),
        ([FAILED], [RAN], [], "gate_failed", 1),
        ([FAILED], [NOT_RUN], [], "gate_failed", 1),
        ([], [RAN, NOT_RUN], ["host"], "ok", 0),
        ([], [RAN, NOT_RUN], ["host", "rv32"], "gate_failed", 1),
        ([], [RAN], ["chip_model"], "ok", 0),  # of another target of the recipe
        ([FAILED], [DIFFERS, NOT_RUN], ["rv32"], "mismatch", 1),
    ],
)
def test_status_and_exit_code(
    gates: list[GateResult], artifacts: list[ArtifactVerdict], require: list[str], status: Status, code: int
) -> None:
    assert status_of(gates, artifacts, required_runners(require, artifacts)) == status
    assert exit_code(status) == code
