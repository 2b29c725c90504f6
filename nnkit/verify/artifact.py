"""Program against what the artifact really computes: compiled, run, compared value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
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
    outputs: Sequence[Mapping[str, NDArray[Any]]] | None = None,
) -> ArtifactVerdict:
    """Run `inputs` and compare outputs; the first `traced` of them also tensor by tensor.

    outputs: the Program's outputs for these inputs, where they were simulated already.
    On a difference the failing input is run again with tracing, to name the first layer that differs.

    Raises ToolError where the runner fails, or returns something else than one result for each input.
    """
    # The traced run needs a build of its own: both are made at the same time.
    with ThreadPoolExecutor(max_workers=2) as pool:
        tracing = pool.submit(runner.run, artifact, program, inputs[:traced], trace=True) if traced else None
        results = runner.run(artifact, program, inputs, trace=False)
        traces = tracing.result() if tracing is not None else []
    for found, asked in ((results, inputs), (traces, inputs[:traced])):
        if len(found) != len(asked):
            raise ToolError(
                f"{len(asked)} inputs were given, {len(found)} results came back",
                where=f"runner {runner.name}",
                remedy="report this to those who made the target",
            )
    values = mismatches = 0
    first = ""
    for index, (given, result) in enumerate(zip(inputs, results, strict=True)):
        known = outputs[index] if outputs is not None and index >= traced else None
        expected = simulate(program, given) if known is None else known
        wrong, compared = _count(program.outputs, result.outputs, expected)
        values, mismatches = values + compared, mismatches + wrong
        if wrong and not first:
            trace = runner.run(artifact, program, [given], trace=True)[0]
            first = first_difference(program, trace, simulate(program, given))
        if index < traced:
            tensors = traces[index].tensors
            inner = [name for name in program.tensors if name in tensors and name not in program.outputs]
            wrong, compared = _count(inner, tensors, expected)
            values, mismatches = values + compared, mismatches + wrong
            if wrong and not first:
                first = first_difference(program, traces[index], expected)
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
    """(values that differ, values compared); a tensor that is missing or has another size differs in every value."""
    wrong = compared = 0
    for name in names:
        reference = expected[name]
        compared += reference.size
        value = got.get(name)
        if value is None or value.size != reference.size:
            wrong += reference.size
        else:
            wrong += int(np.count_nonzero(value.ravel() != reference.ravel()))
    return wrong, compared


def first_difference(program: Program, trace: RunResult, expected: Mapping[str, NDArray[Any]]) -> str:
    """The first op in execution order whose tensor differs, with the first differing value."""
    for op in program.ops:
        value = trace.tensors.get(op.output, trace.outputs.get(op.output))
        if value is None:
            continue
        layer, reference = f"layer {op.name!r} ({op.kind})", expected[op.output].ravel()
        if value.size != reference.size:
            return f"{layer}: {value.size} values computed, {reference.size} expected"
        differs = np.flatnonzero(value.ravel() != reference)
        if differs.size:
            at = int(differs[0])
            return (
                f"{layer}: {differs.size} of {reference.size} values differ, "
                f"the first at index {at}: {value.ravel()[at]} computed, {reference[at]} expected"
            )
    lacking = [name for name in program.outputs if name not in trace.outputs and name not in trace.tensors]
    if lacking:
        return f"no values came back for output {', '.join(map(repr, lacking))}"
    return "the same input gives the expected values when it is traced: something is left over between two calls"
