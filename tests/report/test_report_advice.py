"""Advice: what each figure of a report leads to, and what comes first."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nnkit.mixed_precision.tried import TriedLayers
from nnkit.report.advice import Advice, advice_for
from nnkit.report.untried import KEPT_FORMATS, Untried

NOTHING = Untried()


def layer(name: str, **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "origins": [f"conv_{name}", "relu"],
        "formats": {"output": "s8.4"},
        "proof": "proven",
        "isolated_sqnr_db": 40.0,
        **values,
    }


def report(*layers: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A report of which there is nothing to say."""
    return {
        "status": "ok",
        "doubts": [],
        "quantization_notes": [],
        "target": "tiny",
        "inputs": [{"name": "image"}],
        "layers": list(layers) or [layer("a")],
        "calibration": {"method": "max", "images": 40, "skipped": []},
        "memory": {"l2": {"capacity_bytes": 100, "peak_bytes": 50, "lower_bound_bytes": 50, "proven_optimal": True}},
        "verify": {
            "float_vs_program": {"cosine": 0.999, "inputs": 9, "seen_by_calibration": 0},
            "program_vs_artifact": [{"how": "host", "contract": "exact", "mismatches": 0}],
            "gates": [{"name": "cosine", "passed": True}],
        },
        **values,
    }


def only(advice: list[Advice]) -> Advice:
    (one,) = advice
    return one


def test_nothing_to_say() -> None:
    assert advice_for(report(), NOTHING) == []


def test_a_network_that_is_quantised_already_is_not_to_be_calibrated_otherwise() -> None:
    failing = report(layer("a", clip_rate=0.5, isolated_sqnr_db=2.0), quantization_notes=[KEPT_FORMATS])
    failing["verify"]["gates"] = [{"name": "cosine", "passed": False}]
    failing["calibration"]["images"] = failing["verify"]["float_vs_program"]["seen_by_calibration"] = 2
    assert only(advice_for(failing, Untried(("bias_correction",), True))).title == "Give the float network."


def test_unseen_inputs_are_named_and_float_layers_do_not_count() -> None:
    unseen = {"factor": 2.0, "share": 0.1, "input": "dark.png"}
    found = only(advice_for(report(layer("a", unseen=unseen), layer("b", unseen={**unseen, "factor": 1.2})), NOTHING))
    assert (found.weight, "1 layer met" in found.why, "dark.png" in found.why) == ("high", True, True)
    assert "image: {calibration" in found.recipe
    assert advice_for(report(layer("a", unseen=unseen, formats={"output": "f32"})), NOTHING) == []


def test_what_was_not_tried_weighs_more_where_a_gate_fails() -> None:
    known = Untried(("bias_correction", "adaround"), ("equalize",), sixteen_bits=True)
    found = only(advice_for(report(), known))  # a search for 16 bits has nothing to look for while gates hold
    assert (found.weight, "equalize" in found.why) == ("low", False)
    failing = report()
    failing["verify"]["gates"][0]["passed"] = False
    found = advice_for(failing, known)
    assert {each.weight for each in found} == {"high"}
    lines = [yaml.safe_load(each.recipe) for each in found]
    assert {"calibration": {"corrections": ["equalize", "bias_correction", "adaround"]}} in lines
    assert {"tags": {"hp": "auto"}} in lines


def test_corrections_that_the_recipe_chose_are_asked_about_only_where_a_gate_fails() -> None:
    known = Untried(("bias_correction",), chosen=True)
    assert advice_for(report(), known) == []
    failing = report()
    failing["verify"]["gates"][0]["passed"] = False
    assert only(advice_for(failing, known)).recipe == "calibration: {corrections: [bias_correction]}"


def test_the_weakest_layer_is_named_where_it_stands_out() -> None:
    known = Untried(sixteen_bits=True)
    layers = [layer("a"), layer("weak", isolated_sqnr_db=20.0), layer("c")]
    assert "tags: {hp: [conv_weak]}" in [each.recipe for each in advice_for(report(*layers), known)]
    tagged = [*layers, layer("worse", isolated_sqnr_db=10.0, tags=["hp"])]  # has its 16 bits already
    assert "tags: {hp: [conv_weak]}" in [each.recipe for each in advice_for(report(*tagged), known)]
    layers[1]["isolated_sqnr_db"] = 39.0
    assert not any("weak" in each.recipe for each in advice_for(report(*layers), known))


def test_a_set_of_16_bit_layers_that_the_run_measured_comes_with_its_gain_and_cost() -> None:
    built = TriedLayers((), 15.0, 1000, built=True)
    dear = TriedLayers(("a", "b"), 40.0, 1900)
    cheap = TriedLayers(("a",), 25.0, 1200, options="compile_mode: 2")
    poor = TriedLayers(("b",), 16.0, 1100)
    found = only(advice_for(report(), Untried(tried=(built, poor, dear, cheap), cpu=("*_permute",))))
    assert found.gain == "25.0 dB instead of 15.0 dB, for 200 bytes more of weights"
    assert found.as_json()["gain"] == found.gain
    tags = {"hp": ["conv_a"], "cpu": ["*_permute"]}  # by the imported name; tags of a target replace the recipe's
    assert yaml.safe_load(found.recipe) == {"targets": {"tiny": {"compile_mode": 2, "tags": tags}}}
    assert advice_for(report(), Untried(tried=(built, poor))) == []


def test_no_accuracy_is_advised_to_a_network_of_floats_or_to_one_that_is_nearly_exact() -> None:
    known = Untried(("bias_correction",), sixteen_bits=True)
    assert advice_for(report(layer("a", formats={"output": "f32"})), known) == []
    exact = report()
    exact["verify"]["float_vs_program"]["sqnr_db"] = 70.0
    assert advice_for(exact, known) == []
    exact["verify"]["gates"][0]["passed"] = False
    assert advice_for(exact, known) != []


def test_the_search_for_16_bit_layers_comes_with_a_gate_where_the_recipe_has_none() -> None:
    free = report()
    free["verify"]["gates"] = []
    lines = [
        yaml.safe_load(each.recipe) for each in advice_for(free, Untried(sixteen_bits=True)) if "auto" in each.recipe
    ]
    assert lines == [{"tags": {"hp": "auto"}, "verify": {"gates": {"cosine": 0.999}}}]


def test_inputs_that_went_beyond_are_told_with_what_they_measure() -> None:
    unseen = {"factor": 2.0, "share": 0.1, "input": "dark.png"}
    dark = report(layer("a", unseen=unseen))
    dark["verify"]["float_vs_program"]["sqnr_db"] = 30.0
    dark["verify"]["worst"] = [{"input": "dark.png", "sqnr_db": 12.0}]
    assert only(advice_for(dark, NOTHING)).gain == "dark.png alone has 12.0 dB, all inputs together 30.0 dB"


@pytest.mark.parametrize(
    ("method", "bits", "recipe"),
    [
        ("max", 16, {"calibration": {"headroom": 1.21}}),  # what the values that were met need
        ("max", 8, None),  # 8-bit ranges have no headroom, so that the line would change nothing
        ("percentile", 8, {"calibration": {"method": "max"}}),
        ("table", 8, None),
    ],
)
def test_clipped_layers(method: str, bits: int, recipe: dict[str, Any] | None) -> None:
    unseen = {"factor": 1.2034, "share": 0.02, "input": "dark.png"}
    clipped = layer("a", clip_rate=0.02, unseen=unseen, formats={"output": f"s{bits}.4"})
    clipping = report(clipped, layer("b", clip_rate=0.0001))
    clipping["calibration"]["method"] = method
    found = only(advice_for(clipping, NOTHING))
    assert "1 layer cut off" in found.why
    assert yaml.safe_load(found.recipe or "null") == recipe


def test_an_unproven_build_comes_first_and_names_the_runner() -> None:
    entry = {"how": "rv32", "contract": "not_run", "mismatches": 0, "reason": "no compiler"}
    open_build = report(layer("a", clip_rate=0.5), status="unproven")
    open_build["verify"]["program_vs_artifact"] = [entry]
    first = advice_for(open_build, NOTHING)[0]
    assert "no compiler" in first.why
    assert yaml.safe_load(first.recipe) == {"verify": {"require": ["rv32"]}}


def test_memory_that_is_nearly_full_or_not_proven() -> None:
    full = report()
    full["memory"]["l2"] |= {"peak_bytes": 95, "lower_bound_bytes": 90, "proven_optimal": False}
    titles = [each.title for each in advice_for(full, NOTHING)]
    assert titles == ["Mind l2: the next model may not fit.", "A better plan of l2 may exist."]


def test_few_calibration_inputs_none_held_out_and_no_gates() -> None:
    poor = report()
    poor["calibration"] |= {"images": 1, "skipped": [{"name": "x.png", "reason": "empty"}]}
    poor["verify"]["gates"] = []
    poor["verify"]["float_vs_program"]["seen_by_calibration"] = 3
    found = advice_for(poor, NOTHING)
    assert [each.weight for each in found] == ["medium", "medium", "medium", "low"]
    limit = yaml.safe_load(found[-1].recipe)["verify"]["gates"]["cosine"]
    assert 0.9 < limit < 0.999
