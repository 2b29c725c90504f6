"""Program against a runner that is right, wrong, silent or malformed, where and how is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from program_builder import ProgramBuilder

from nnkit.errors import ToolError
from nnkit.program import Program
from nnkit.target import Contract, RunResult
from nnkit.verify.artifact import ArtifactVerdict, compare_artifact

Values = dict[str, NDArray[Any]]
Alter = Callable[[int, Values], None]
SHAPE = (2, 3, 4)
SIZE = 24


def chain() -> Program:
    """x -> sum = x + x -> kept = sum -> out = kept + sum, so out = 4 x by hand."""
    net = ProgramBuilder()
    x = net.input(*SHAPE, name="x")
    doubled = net.add(x, x, name="sum")
    kept = net.activation(doubled, name="kept")
    return net.build(net.add(kept, doubled, name="out"))


def by_hand(x: NDArray[Any]) -> Values:
    return {"sum_v": 2 * x, "kept_v": 2 * x, "out_v": 4 * x}


class FakeRunner:
    """Computes `by_hand` and lets the test damage it: `alter(input's number, values by name)`."""

    contract: Contract = "exact"
    emulated = False
    name = "fake"

    def __init__(self, alter: Alter | None = None, untraced_only: bool = False) -> None:
        self.alter = alter
        self.untraced_only = untraced_only
        self.traces = 0

    def missing(self) -> str | None:
        return None

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]], *, trace: bool
    ) -> list[RunResult]:
        self.traces += trace
        results = []
        for given in inputs:
            values = by_hand(given["x"])
            if self.alter is not None and not (trace and self.untraced_only):
                self.alter(int(given["x"].flat[0]), values)
            outputs = {name: value for name, value in values.items() if name == "out_v"}
            tensors = {name: value for name, value in values.items() if name != "out_v"} if trace else {}
            results.append(
                RunResult(outputs, tensors, instructions=1000, instructions_by_layer={"sum": 7}, measured={"m": 3})
            )
        return results


def inputs(count: int) -> list[dict[str, NDArray[np.int64]]]:
    """The first value of each is its number, so that a fake runner can tell them apart."""
    return [{"x": np.arange(SIZE, dtype=np.int64).reshape(SHAPE) + index} for index in range(count)]


def compare(alter: Alter | None = None, *, count: int = 3, traced: int = 0, **more: Any) -> ArtifactVerdict:
    return compare_artifact(FakeRunner(alter, **more), Path(), chain(), inputs(count), traced=traced)


def test_a_right_artifact() -> None:
    verdict = compare()
    assert verdict.as_json() == {
        "how": "fake",
        "contract": "exact",
        "values": 3 * SIZE,
        "mismatches": 0,
        "inputs": 3,
        "instructions": 1000,
        "measured": {"m": 3},
    }
    assert verdict.instructions_by_layer == {"sum": 7}


def test_traced_inputs_are_compared_tensor_by_tensor() -> None:
    assert compare(traced=2).values == 3 * SIZE + 2 * 2 * SIZE


def test_wrong_values_are_counted_and_the_first_layer_is_named() -> None:
    def alter(number: int, values: Values) -> None:
        if number == 1:
            values["kept_v"] = values["kept_v"].copy()
            values["kept_v"].flat[5] += 1
            values["out_v"] = values["out_v"].copy()
            values["out_v"].flat[[2, 5]] -= 3

    verdict = compare(alter)
    assert (verdict.values, verdict.mismatches) == (3 * SIZE, 2)
    # Input 1 is 1, 2, 3, ...: value 5 of it is 6, kept is twice that.
    assert verdict.first_difference == (
        "layer 'kept' (activation): 1 of 24 values differ, the first at index 5: 13 computed, 12 expected"
    )
    assert verdict.as_json()["first_difference"] == verdict.first_difference


def test_a_wrong_last_layer_is_named_although_runners_trace_outputs_apart() -> None:
    def alter(number: int, values: Values) -> None:
        values["out_v"] = values["out_v"] + 1

    verdict = compare(alter, count=1)
    assert verdict.mismatches == SIZE
    assert verdict.first_difference.startswith("layer 'out' (add): 24 of 24 values differ, the first at index 0: 1")


def test_a_wrong_inner_tensor_behind_a_right_output_is_found_where_it_is_traced() -> None:
    def alter(number: int, values: Values) -> None:
        values["sum_v"] = values["sum_v"] + 1

    assert compare(alter, traced=0).mismatches == 0
    verdict = compare(alter, traced=1)
    assert verdict.mismatches == SIZE
    assert verdict.first_difference.startswith("layer 'sum' (add): 24 of 24 values differ")


def test_of_several_wrong_inputs_the_first_is_told() -> None:
    def alter(number: int, values: Values) -> None:
        name = "sum_v" if number == 0 else "kept_v"
        values[name] = values[name] + 1

    verdict = compare(alter, traced=2)
    assert verdict.mismatches == 2 * SIZE
    assert verdict.first_difference.startswith("layer 'sum' (add)")


def test_a_missing_output_differs_in_every_value() -> None:
    def alter(number: int, values: Values) -> None:
        del values["out_v"]

    verdict = compare(alter, count=2)
    assert (verdict.values, verdict.mismatches) == (2 * SIZE, 2 * SIZE)
    assert verdict.first_difference == "no values came back for output 'out_v'"


def test_a_misshapen_output_differs_in_every_value() -> None:
    def alter(number: int, values: Values) -> None:
        values["out_v"] = values["out_v"].ravel()[:10]

    verdict = compare(alter, count=1)
    assert verdict.mismatches == SIZE
    assert verdict.first_difference == "layer 'out' (add): 10 values computed, 24 expected"


def test_a_misshapen_inner_tensor() -> None:
    def alter(number: int, values: Values) -> None:
        values["sum_v"] = values["sum_v"][:1]

    verdict = compare(alter, count=1, traced=1)
    assert verdict.mismatches == SIZE
    assert verdict.first_difference == "layer 'sum' (add): 12 values computed, 24 expected"


def test_a_failure_that_goes_away_when_traced_is_called_that() -> None:
    def alter(number: int, values: Values) -> None:
        values["out_v"] = values["out_v"] + 1

    verdict = compare(alter, count=1, untraced_only=True)
    assert verdict.mismatches == SIZE
    assert "left over between two calls" in verdict.first_difference


def test_only_the_first_failing_input_is_run_again() -> None:
    def alter(number: int, values: Values) -> None:
        values["out_v"] = values["out_v"] + 1

    runner = FakeRunner(alter)
    compare_artifact(runner, Path(), chain(), inputs(5))
    assert runner.traces == 1


def test_tensors_that_the_program_does_not_have_are_left_alone() -> None:
    def alter(number: int, values: Values) -> None:
        values["line_buffer"] = np.zeros(3)

    assert compare(alter, traced=1).mismatches == 0


def test_a_runner_that_loses_an_input() -> None:
    class Lossy(FakeRunner):
        def run(self, *arguments: Any, **more: Any) -> list[RunResult]:
            return super().run(*arguments, **more)[:-1]

    with pytest.raises(ToolError, match="3 inputs were given, 2 results came back"):
        compare_artifact(Lossy(), Path(), chain(), inputs(3))


class TwoModels(FakeRunner):
    """Outputs by one model, every value by another; `alter` damages only the model of that number."""

    contract: Contract = "bounded"
    layer_by_layer: Literal[True] = True

    def __init__(self, damaged: str, alter: Alter) -> None:
        super().__init__()
        self.damaged, self.damage = damaged, alter

    def bound(self, program: Program, tensor: str) -> float:
        return 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]], *, trace: bool
    ) -> list[RunResult]:
        results = []
        for given in inputs:
            released, traced = by_hand(given["x"]), by_hand(given["x"])
            self.damage(0, released if self.damaged == "released" else traced)
            results.append(RunResult({"out_v": released["out_v"]}, traced))
        return results


def test_a_wrong_model_of_inner_values_does_not_fail_a_right_release() -> None:
    def lose_a_layer(number: int, values: Values) -> None:
        values["kept_v"][:] = 0
        values["out_v"] = values["sum_v"]

    verdict = compare_artifact(TwoModels("traced", lose_a_layer), Path(), chain(), inputs(2))
    assert (verdict.mismatches, verdict.values) == (0, 2 * SIZE)
    assert "the released model's outputs are as simulated, 24 of 24 of the model that gives inner" in verdict.note
    assert verdict.as_json()["note"] == verdict.note


def test_a_wrong_release_fails_and_is_named() -> None:
    def one_off(number: int, values: Values) -> None:
        values["out_v"].flat[3] += 1

    verdict = compare_artifact(TwoModels("released", one_off), Path(), chain(), inputs(1))
    assert verdict.mismatches == 1
    assert "1 of the released one and 0 of the other are not as simulated" in verdict.note
    assert "'out'" in verdict.first_difference


class Bounded(TwoModels):
    """Layers before the output may differ by one, and in the model of inner values the first does."""

    def bound(self, program: Program, tensor: str) -> float:
        return 0.0 if tensor in program.outputs else 1.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]], *, trace: bool
    ) -> list[RunResult]:
        results = super().run(artifact, program, inputs, trace=trace)
        for result in results:
            for name, by in (("sum_v", 1), ("kept_v", 1), ("out_v", 2)):
                result.tensors[name].flat[0] += by
        return results


@pytest.mark.parametrize(
    ("where", "off", "within"),
    [
        pytest.param(3, 3, True, id="one value, as far as bounds reach: twice the first layer's and the second's"),
        pytest.param(3, 4, False, id="one value, further"),
        pytest.param(slice(None), 1, True, id="all values, nearer than the square root of 10/3"),
        pytest.param(slice(None), 4, False, id="all values, further"),
        pytest.param(3, np.inf, False, id="not a number of the format"),
    ],
)
def test_where_layers_may_differ_a_release_may_be_as_far_as_bounds_let(
    where: int | slice, off: float, within: bool
) -> None:
    def move(number: int, values: Values) -> None:
        values["out_v"] = values["out_v"] + np.zeros(SHAPE, type(off))
        values["out_v"].flat[where] += off

    verdict = compare_artifact(Bounded("released", move), Path(), chain(), inputs(1))
    assert (verdict.mismatches == 0) == within
    assert ("compared with the outputs of the other" in verdict.note) == within
    assert ("further than all of these" in verdict.note) != within
    assert "the other 0.4082 (largest 2)" in verdict.note, "one value of 24"


class BothRight(TwoModels):
    """Every value may differ by one, as the first of the release does."""

    def bound(self, program: Program, tensor: str) -> float:
        return 1.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]], *, trace: bool
    ) -> list[RunResult]:
        results = super().run(artifact, program, inputs, trace=trace)
        for result in results:
            result.outputs["out_v"].flat[0] += 1
        return results


@pytest.mark.parametrize("wrong", [0, 5])
def test_layers_are_compared_where_both_models_are_right_and_differ_within_bounds(wrong: int) -> None:
    def move(number: int, values: Values) -> None:
        values["kept_v"].flat[3] += wrong

    verdict = compare_artifact(BothRight("traced", move), Path(), chain(), inputs(1))
    assert verdict.values == SIZE + 3 * SIZE, "the release's outputs, and the layers of the other"
    assert (verdict.mismatches > 0) == bool(wrong)
    assert not verdict.note


class OutputsAlone(Bounded):
    """No model gives the inner values."""

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]], *, trace: bool
    ) -> list[RunResult]:
        results = super().run(artifact, program, inputs, trace=trace)
        return [RunResult(each.outputs, absorbed=frozenset({"sum_v", "kept_v"})) for each in results]


@pytest.mark.parametrize(("off", "within"), [(1, True), (4, False)])
def test_outputs_alone_are_judged_by_what_bounds_let_happen(off: int, within: bool) -> None:
    def move(number: int, values: Values) -> None:
        values["out_v"].flat[3] += off

    verdict = compare_artifact(OutputsAlone("released", move), Path(), chain(), inputs(1))
    assert (verdict.mismatches == 0) == within
    assert verdict.values == SIZE
    assert "outputs alone were compared" in verdict.note
    assert ("as near as these" in verdict.note) == within


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_values_that_are_not_finite_differ_and_are_written(value: float) -> None:
    """A report is JSON, which has no number for them."""

    def overflow(number: int, values: Values) -> None:
        values["out_v"] = values["out_v"].astype(np.float32)
        values["out_v"].flat[3] = value

    verdict = compare_artifact(TwoModels("released", overflow), Path(), chain(), inputs(1))
    assert verdict.mismatches == 1
    json.dumps(verdict.as_json(), allow_nan=False)
    assert str(value) in verdict.first_difference


class Merging(TwoModels):
    """Its compiler made `kept` part of the next layer; says so where `told`."""

    def __init__(self, alter: Alter, told: bool = True) -> None:
        super().__init__("traced", alter)
        self.told = told

    def run(self, *arguments: Any, **more: Any) -> list[RunResult]:
        results = super().run(*arguments, **more)
        for result in results:
            del result.tensors["kept_v"]  # type: ignore[attr-defined]
        return [replace(each, absorbed=frozenset({"kept_v"} if self.told else ())) for each in results]


def test_a_layer_that_a_compiler_merged_is_compared_with_its_readers() -> None:
    verdict = compare_artifact(Merging(lambda number, values: None), Path(), chain(), inputs(2))
    assert (verdict.mismatches, verdict.values) == (0, 2 * 2 * SIZE)
    assert verdict.note == "the model holds no values of 1 layer (kept): compared with the layers that read them"

    def wrong_sum(number: int, values: Values) -> None:
        values["sum_v"].flat[5] += 1

    wrong = compare_artifact(Merging(wrong_sum), Path(), chain(), inputs(1))
    assert wrong.mismatches == 2  # the sum, and what is made of it: the outputs are those of the right sum
    with pytest.raises(ToolError, match="no values came back for 'kept_v'"):
        compare_artifact(Merging(lambda number, values: None, told=False), Path(), chain(), inputs(1))


def test_not_run_says_why() -> None:
    entry = ArtifactVerdict("rv32", "not_run", reason="no QEMU").as_json()
    assert entry == {
        "how": "rv32",
        "contract": "not_run",
        "values": 0,
        "mismatches": 0,
        "inputs": 0,
        "reason": "no QEMU",
    }
