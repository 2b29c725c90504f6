"""What a recipe could still ask for where the accuracy of a build does not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnkit.stages import Build


def not_tried(build: Build, report: dict[str, Any]) -> str | None:
    """The recipe's lines that may help a build whose gates fail; None where nothing of this kind is left.

    No precision reaches a gate that the float network fails, nor one that was not measured.
    """
    from nnkit.report.untried import KEPT_FORMATS
    from nnkit.stages import untried
    from nnkit.verify.gates import GateResult, beyond_the_float_network

    failed = [gate for gate in map(GateResult.from_json, report["verify"]["gates"]) if not gate.passed]
    if len(beyond_the_float_network(failed)) + sum(1 for gate in failed if gate.reason) == len(failed):
        return None
    if KEPT_FORMATS in report["quantization_notes"]:
        return "the float network: this model is quantised already, and stays as it is"
    lines = []
    rest = untried(build)
    if rest.corrections:
        lines.append(f"calibration: {{corrections: [...]}} with {', '.join(rest.corrections)}")
    if rest.sixteen_bits:
        lines.append("tags: {hp: auto}, which puts the layers that need it into 16 bits")
    return "; ".join(lines) or None
