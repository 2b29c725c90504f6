"""What a recipe could still ask for where the accuracy of a build does not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnkit.recipe.sections import AUTO

if TYPE_CHECKING:
    from nnkit.stages import Build


def not_tried(build: Build, report: dict[str, Any]) -> str | None:
    """The recipe's lines that may help a build whose gates fail; None where nothing of this kind is left.

    No precision reaches a gate that the float network fails.
    """
    from nnkit.verify.gates import GateResult, beyond_the_float_network

    failed = [gate for gate in map(GateResult.from_json, report["verify"]["gates"]) if not gate.passed]
    if len(beyond_the_float_network(failed)) == len(failed):
        return None
    lines = []
    asked = build.recipe.calibration_for(build.key).corrections or ()
    others = [name for name in build.target.corrections if name not in asked]
    if others:
        lines.append(f"calibration: {{corrections: [...]}} with {', '.join(others)}")
    if build.target.gains_from_sixteen_bits(build.options) and build.recipe.tags_for(build.key).hp != AUTO:
        lines.append("tags: {hp: auto}, which puts the layers that need it into 16 bits")
    return "; ".join(lines) or None
