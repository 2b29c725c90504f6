"""Program against what the artifact really computes: compiled, run, compared value by value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit.program import OpBase, Program
from nnkit.runner import Contract, GaugedRunner, LayerRunner, Runner, RunResult
from nnkit.simulate import simulate, simulate_op
from nnkit.verify.carried_bounds import carried
from nnkit.verify.drift import Bound, LayerBound, distance, drawn, furthest
from nnkit.verify.overflow import refuse_overflow

_OURS = "report this to those who made the target"


@dataclass(frozen=True)
class ArtifactVerdict:
    """The comparison of one runner.

    values/mismatches: compared values and how many differ; under contract `bounded`, by more than the runner's bound.
    max_difference: the largest difference of a stored value, for `bounded` only; None where it is not finite.
    first_difference: the first layer (in execution order) whose tensor differs, with an example.
    reason: why nothing was run, for `not_run`.
    note: what could not be compared, or which of two models is the wrong one; empty in most cases.
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
    max_difference: float | None = None
    note: str = ""

    @property
    def ran(self) -> bool:
        """Whether anything was computed and compared."""
        return self.contract != "not_run"

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
        if self.max_difference is not None:
            entry["max_difference"] = self.max_difference
        if self.first_difference:
            entry["first_difference"] = self.first_difference
        if self.reason:
            entry["reason"] = self.reason
        if self.note:
            entry["note"] = self.note
        return entry


def compare_artifact(
    runner: Runner,
    artifact: Path,
    program: Program,
    inputs: Sequence[Mapping[str, NDArray[Any]]],
    *,
    traced: int = 0,
    outputs: Sequence[Mapping[str, NDArray[Any]]] | None = None,
) -> ArtifactVerdict:
    """Run `inputs` and compare outputs; the first `traced` of them also tensor by tensor.

    outputs: the Program's outputs for these inputs, where they were simulated already.
    On a difference the failing input is run again with tracing, to name the first layer that differs.

    Raises ToolError where the runner fails, or returns something else than one result for each input; ModelError for
    values that are infinite in both, which prove nothing.
    """
    if isinstance(runner, LayerRunner):
        return _compare_layers(runner, artifact, program, inputs, outputs)
    # The traced run needs a build of its own: both are made at the same time.
    with ThreadPoolExecutor(max_workers=2) as pool:
        tracing = pool.submit(runner.run, artifact, program, inputs[:traced], trace=True) if traced else None
        results = runner.run(artifact, program, inputs, trace=False)
        traces = tracing.result() if tracing is not None else []
    _check_count(runner, len(inputs), len(results))
    _check_count(runner, len(inputs[:traced]), len(traces))
    count = _Count(runner, program)
    first = ""
    for index, (given, result) in enumerate(zip(inputs, results, strict=True)):
        known = outputs[index] if outputs is not None and index >= traced else None
        expected = simulate(program, given) if known is None else known
        compared = [name for name in program.outputs if name not in result.left_out]
        if count.add(compared, result.outputs, expected) and not first:
            trace = runner.run(artifact, program, [given], trace=True)[0]
            first = first_difference(program, trace, simulate(program, given), count.bound)
        if index < traced:
            tensors = traces[index].tensors
            inner = [name for name in program.tensors if name in tensors and name not in program.outputs]
            if count.add(inner, tensors, expected) and not first:
                first = first_difference(program, traces[index], expected, count.bound)
    return count.verdict(results, first)


def _compare_layers(
    runner: LayerRunner,
    artifact: Path,
    program: Program,
    inputs: Sequence[Mapping[str, NDArray[Any]]],
    outputs: Sequence[Mapping[str, NDArray[Any]]] | None,
) -> ArtifactVerdict:
    """Every layer of every input, on what the runner itself gave that layer.

    Inner values may come from another model than the outputs. Where the two give other outputs than one another,
    the released one is compared with the simulation of the whole network first: where it alone agrees, the layers
    of the other prove nothing and are not compared; where both do, they are; otherwise the verdict says how far
    either is. Where a layer may differ within a bound, neither may be as simulated: the layers of the other are
    then compared with its own outputs, and the released one passes where networks that keep to the bounds are as
    far from the simulation: the other model, whose layers are compared, and some that are drawn (`drift.py`).

    A layer whose values the artifact does not hold is computed, and so compared with the layers that read it, which
    may be off by what comes of its bound (`carried_bounds.py`). Where it holds none at all, and layers may differ,
    the outputs are judged by networks that are drawn alone.
    """
    results = runner.run(artifact, program, inputs, trace=True)
    _check_count(runner, len(inputs), len(results))
    count = _Count(runner, program)
    first = note = ""
    absorbed: dict[str, None] = {}
    for index, (given, result) in enumerate(zip(inputs, results, strict=True)):
        own_outputs = False
        if result.absorbed and not result.tensors and count.may_drift:
            expected = outputs[index] if outputs is not None else simulate(program, given)
            within, told = _within_reach(program, given, result, expected, count.bound_on)
            count.add(program.outputs, result.outputs, expected, np.inf if within else None)
            note = f"no model gives inner values, so that outputs alone were compared; {told}"
            continue
        if _models_differ(program, result):
            expected = outputs[index] if outputs is not None else simulate(program, given)
            released = count.differing(program.outputs, result.outputs, expected)
            traced = count.differing(program.outputs, result.tensors, expected)
            size = sum(expected[name].size for name in program.outputs)
            if not released:
                count.add(program.outputs, result.outputs, expected)
                if traced:
                    note = (
                        f"the released model's outputs are as simulated, {traced} of {size} of the model that gives "
                        "inner values are not: its layers were not compared"
                    )
                    continue
                own_outputs = True
            else:
                note = (
                    "the released model and the one that gives inner values have other outputs: of "
                    f"{size} values, {released} of the released one and {traced} of the other are not as simulated"
                )
                if count.may_drift:
                    own_outputs, told = _within_reach(program, given, result, expected, count.bound_on)
                    note += f"; {told}"
        values = {**given, **result.tensors, **({} if own_outputs else result.outputs)}
        off: dict[str, Bound] = {}
        for op in program.ops:
            lacking = [
                name
                for name in (*op.inputs, op.output)
                if name not in values and not (name == op.output and name in result.absorbed)
            ]
            if lacking:
                raise ToolError(
                    f"no values came back for {lacking[0]!r}", where=f"runner {runner.name}", remedy=_OURS
                )
            shaped = [values[name].reshape(program.tensors[name].shape) for name in op.inputs]
            expected = {op.output: simulate_op(program, op, shaped)}
            bound = count.bound_on(op, shaped, expected[op.output])
            if off.keys() & set(op.inputs):
                bound = bound + carried(program, op, shaped, expected[op.output], off)
            if op.output not in values:
                absorbed[op.name] = None
                values.update(expected)
                off[op.output] = bound
                continue
            if count.add([op.output], values, expected, bound) and not first:
                trace = RunResult({}, {op.output: values[op.output]})
                one = replace(program, ops=(op,), outputs=(op.output,))
                first = first_difference(one, trace, expected, partial(_always, bound))
    if absorbed:
        note = "; ".join(filter(None, (note, _absorbed_note(list(absorbed)))))
    return replace(count.verdict(results, first), note=note)


def _absorbed_note(layers: Sequence[str]) -> str:
    shown = ", ".join(layers[:3]) + (", ..." if len(layers) > 3 else "")
    return (
        f"the model holds no values of {len(layers)} layer{'s' * (len(layers) > 1)} ({shown}): compared with the "
        "layers that read them"
    )


def _models_differ(program: Program, result: RunResult) -> bool:
    """Whether inner values come from a model that gives other outputs."""
    return any(
        not np.array_equal(np.ravel(result.tensors[name]), np.ravel(result.outputs[name]), equal_nan=True)
        for name in program.outputs
        if name in result.tensors and name in result.outputs
    )


def _within_reach(
    program: Program,
    given: Mapping[str, NDArray[Any]],
    result: RunResult,
    expected: Mapping[str, NDArray[Any]],
    bound: LayerBound,
) -> tuple[bool, str]:
    """Whether networks that keep to the bounds of layers are as far from the simulation as the released outputs."""
    released = distance(program, result.outputs, expected)
    traced = [distance(program, {**result.outputs, **result.tensors}, expected)] if result.tensors else []
    draws = drawn(program, given, expected, bound, lambda draws: released.within([*traced, *draws]))
    within = released.within([*traced, *draws])
    rows = [("the released one", released), *(("the other", each) for each in traced)]
    rows += [("networks drawn within the bounds up to", furthest(draws))] if draws else []
    figures = ", ".join(f"{name} {each.root_mean_square:.4g} (largest {each.largest:.4g})" for name, each in rows)
    end = "the layers are compared with the outputs of the other" if traced else "it is as near as these"
    end = end if within else "it is further than all of these"
    return within, f"layers may differ within bounds; root mean square from the simulation: {figures}: {end}"


def _check_count(runner: Runner, asked: int, results: int) -> None:
    if results != asked:
        raise ToolError(
            f"{asked} inputs were given, {results} results came back", where=f"runner {runner.name}", remedy=_OURS
        )


class _Count:
    """Compared and differing values of one runner, under its contract."""

    def __init__(self, runner: Runner, program: Program) -> None:
        self._runner, self._program = runner, program
        self.values = self.mismatches = 0
        self.largest = 0.0

    def bound(self, tensor: str) -> float:
        """The difference that still counts as equal; 0 under contract `exact`."""
        return self._runner.bound(self._program, tensor) if self._runner.contract == "bounded" else 0.0

    def bound_on(self, op: OpBase, inputs: Sequence[NDArray[Any]], result: NDArray[Any]) -> Bound:
        """As `bound`, of a layer that reads these stored values and gives that, as simulated."""
        if isinstance(self._runner, GaugedRunner):
            return self._runner.gauged(self._program, op, inputs, result)
        return self.bound(op.output)

    @property
    def may_drift(self) -> bool:
        """Whether a layer may differ within a bound, and so what is computed from it."""
        return any(self.bound(op.output) > 0.0 for op in self._program.ops)

    def add(
        self,
        names: Sequence[str],
        got: Mapping[str, NDArray[Any]],
        expected: Mapping[str, NDArray[Any]],
        bound: Bound | None = None,
    ) -> int:
        """Compare; returns how many differ. A tensor that is missing or of another size differs in every value.

        bound: where it follows from what was read.
        """
        for name in names:
            reference = expected[name].ravel()
            self.values += reference.size
            value = got.get(name)
            if value is None or value.size != reference.size:
                continue
            if reference.dtype.kind == "f" and np.any(np.isinf(reference) & (value.ravel() == reference)):
                refuse_overflow(self._program, {name: reference}, {})
            if self._runner.contract == "bounded" and reference.size:
                gaps = np.abs(value.ravel().astype(np.float64) - reference.astype(np.float64))
                self.largest = max(self.largest, float(np.nan_to_num(gaps, nan=np.inf).max()))
        wrong = self.differing(names, got, expected, bound)
        self.mismatches += wrong
        return wrong

    def differing(
        self,
        names: Sequence[str],
        got: Mapping[str, NDArray[Any]],
        expected: Mapping[str, NDArray[Any]],
        bound: Bound | None = None,
    ) -> int:
        """How many values differ; see `add`."""
        wrong = 0
        for name in names:
            value, reference = got.get(name), expected[name].ravel()
            if value is None or value.size != reference.size:
                wrong += reference.size
            else:
                most = self.bound(name) if bound is None else bound
                wrong += int(np.count_nonzero(differing(value.ravel(), reference, most)))
        return wrong

    def verdict(self, results: Sequence[RunResult], first_difference: str) -> ArtifactVerdict:
        """What came of it; counts of instructions and measurements are those of the first run."""
        runner, head = self._runner, results[0] if results else RunResult({})
        if not self.values:
            return ArtifactVerdict(runner.name, "not_run", reason="nothing of this network runs there")
        return ArtifactVerdict(
            how=runner.name,
            contract=runner.contract,
            values=self.values,
            mismatches=self.mismatches,
            inputs=len(results),
            instructions=head.instructions,
            instructions_by_layer=head.instructions_by_layer,
            measured=head.measured,
            max_difference=self.largest if runner.contract == "bounded" and math.isfinite(self.largest) else None,
            first_difference=first_difference,
        )


def differing(value: NDArray[Any], reference: NDArray[Any], bound: Bound) -> NDArray[np.bool_]:
    """Where two flat arrays differ by more than `bound` (0: at all); a value that is not a number differs."""
    if not np.any(bound):
        return np.asarray(value != reference)
    gaps = np.abs(value.astype(np.float64) - reference.astype(np.float64))
    return np.asarray(~(gaps <= np.ravel(bound)))


def _always(bound: Bound, tensor: str) -> Bound:
    return bound


def first_difference(
    program: Program,
    trace: RunResult,
    expected: Mapping[str, NDArray[Any]],
    bound: Callable[[str], Bound] = lambda tensor: 0.0,
) -> str:
    """The first op in execution order whose tensor differs (by more than `bound`), with the first such value."""
    for op in program.ops:
        value = trace.tensors.get(op.output, trace.outputs.get(op.output))
        if value is None:
            continue
        layer, reference = f"layer {op.name!r} ({op.kind})", expected[op.output].ravel()
        if value.size != reference.size:
            return f"{layer}: {value.size} values computed, {reference.size} expected"
        differs = np.flatnonzero(differing(value.ravel(), reference, bound(op.output)))
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
