"""Program against what the artifact really computes: compiled, run, compared value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Program
from nnkit.simulate import simulate
from nnkit.target import Contract, Runner, RunResult


@dataclass(frozen=True)
class ArtifactVerdict:
    """The comparison of one runner.

    values/mismatches: compared integers and how many differ. first_difference: the first layer (in execution
    order) whose tensor differs, with an example. reason: why nothing was run, for `not_run`.
    """

    how: str
    contract: Contract
    values: int = 0
    mismatches: int = 0
    inputs: int = 0
    instructions: int | None = None
    instructions_by_layer: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, int] = field(default_factory=dict)
    first_difference: str = ""
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """The entry of `program_vs_artifact` in a report."""
        entry: dict[str, Any] = {
            "how": self.how,
            "contract": self.contract,
            "values": self.values,
            "mismatches": self.mismatches,
            "inputs": self.inputs,
        }
        if self.instructions is not None:
            entry["instructions"] = self.instructions
        if self.measured:
            entry["measured"] = dict(self.measured)
        if self.first_difference:
            entry["first_difference"] = self.first_difference
        if self.reason:
            entry["reason"] = self.reason
        return entry


def compare_artifact(
    runner: Runner,
    artifact: Path,
    program: Program,
    inputs: Sequence[Mapping[str, NDArray[np.int64]]],
    *,
    traced: int = 0,
) -> ArtifactVerdict:
    """Run `inputs` and compare outputs; the first `traced` of them also tensor by tensor.

    On a difference the failing input is run again with tracing, to name the first layer that differs.
    """
    results = runner.run(artifact, program, inputs, trace=False)
    values = mismatches = 0
    first = ""
    for index, (given, result) in enumerate(zip(inputs, results, strict=True)):
        expected = simulate(program, given)
        wrong, compared = _count(program.outputs, result.outputs, expected)
        values, mismatches = values + compared, mismatches + wrong
        if wrong and not first:
            first = first_difference(program, runner.run(artifact, program, [given], trace=True)[0], expected)
        if index < traced:
            trace = runner.run(artifact, program, [given], trace=True)[0]
            inner = [name for name in trace.tensors if name not in program.outputs]
            wrong, compared = _count(inner, trace.tensors, expected)
            values, mismatches = values + compared, mismatches + wrong
            if wrong and not first:
                first = first_difference(program, trace, expected)
    head = results[0] if results else RunResult({})
    return ArtifactVerdict(
        how=runner.name,
        contract=runner.contract,
        values=values,
        mismatches=mismatches,
        inputs=len(inputs),
        instructions=head.instructions,
        instructions_by_layer=head.instructions_by_layer,
        measured=head.measured,
        first_difference=first,
    )


def _count(
    names: Sequence[str], got: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]
) -> tuple[int, int]:
    """(values that differ, values compared); a tensor that is missing differs in every value."""
    wrong = compared = 0
    for name in names:
        reference = expected[name]
        compared += reference.size
        value = got.get(name)
        same_size = value is not None and value.size == reference.size
        wrong += (
            int(np.count_nonzero(value.ravel() != reference.ravel()))
            if same_size and value is not None
            else (reference.size)
        )
    return wrong, compared


def first_difference(program: Program, trace: RunResult, expected: Mapping[str, NDArray[Any]]) -> str:
    """The first op in execution order whose traced tensor differs, with the first differing value."""
    for op in program.ops:
        value = trace.tensors.get(op.output)
        if value is None:
            continue
        reference = expected[op.output].ravel()
        differs = np.flatnonzero(value.ravel() != reference) if value.size == reference.size else np.arange(1)
        if differs.size:
            at = int(differs[0])
            got = value.ravel()[at] if value.size > at else "nothing"
            return (
                f"layer {op.name!r} ({op.kind}): {differs.size} of {reference.size} values differ, "
                f"the first at index {at}: {got} computed, {reference[at]} expected"
            )
    return "only the output differs, every traced layer agrees: input or output hand-over is wrong"
