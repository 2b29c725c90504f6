"""`tags: {hp: auto}` through the pipeline: what is chosen and reported, what is refused, what the cache keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.cache import StageCache
from nnkit.errors import GateFailedError, RecipeError
from nnkit.report.schema import report_json_schema

GATES = "verify: {gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}"
AUTO = RECIPE.replace("gap8: {}", "gap8: {precision: int8}") + "tags: {hp: auto}\n"
assert GATES in AUTO


def auto(gates: str) -> str:
    return AUTO.replace(GATES, f"verify: {{gates: {gates}}}")


def built(folder: Path, recipe: str, cache: StageCache | None = None) -> tuple[dict[str, Any], dict[str, bool]]:
    if not (folder / "net.onnx").exists():
        write_project(folder, recipe)
    (folder / "recipe.yaml").write_text(recipe)
    build = make_build(folder / "recipe.yaml", cache)
    outcome = pipeline.run(build, folder / "out")
    assert outcome.status == "ok"
    report = json.loads((outcome.folder / "report.json").read_text(encoding="utf-8"))
    return report, {timing.name: timing.cached for timing in build.progress.timings}


@pytest.fixture(scope="module")
def eight_bits_db(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What 8 bits alone reach."""
    report, timings = built(tmp_path_factory.mktemp("int8"), auto("{cosine: 0.5}"))
    found = report["mixed_precision"]
    assert (found["chosen"], found["certificate"], found["sets_tried"]) == ([], "minimum", 1)
    assert found["reason"].endswith("none needs 16")
    assert all("hp" not in layer["tags"] for layer in report["layers"])
    assert "precision" in timings
    return float(report["verify"]["float_vs_program"]["sqnr_db"])


def test_the_chosen_layers_run_in_16_bits_and_the_report_says_why(tmp_path: Path, eight_bits_db: float) -> None:
    cache = StageCache(tmp_path / "cache")
    limit = round(eight_bits_db + 6.0, 2)
    report, timings = built(tmp_path, auto(f"{{sqnr_db: {limit}}}"), cache)
    assert not timings["precision"]
    assert list(jsonschema.Draft202012Validator(report_json_schema()).iter_errors(report)) == []
    found = report["mixed_precision"]
    names = [row["name"] for row in found["chosen"]]
    assert names
    assert [layer["name"] for layer in report["layers"] if "hp" in layer["tags"]] == names
    assert report["verify"]["float_vs_program"]["sqnr_db"] >= limit
    for row in found["chosen"]:
        assert row["without"]["sqnr_db"] < limit
        assert "sqnr_db" in row["reason"]
    assert [row["chosen"] for row in found["pareto"]].count(True) <= 1
    gained = [row["sqnr_db"] for row in found["pareto"]]
    assert gained == sorted(gained)
    assert sorted(row["rank"] for row in found["layers"]) == list(range(1, found["candidates"] + 1))

    again, timings = built(tmp_path, auto(f"{{sqnr_db: {limit}}}"), cache)
    assert timings["precision"], "the search is not repeated"
    assert again == report
    _, timings = built(tmp_path, auto(f"{{sqnr_db: {limit - 1}}}"), cache)
    assert not timings["precision"], "other gates, another search"


def test_the_layers_that_were_chosen_can_be_written_down_instead(tmp_path: Path, eight_bits_db: float) -> None:
    recipe = auto(f"{{sqnr_db: {eight_bits_db + 6.0:.2f}}}")
    report, _ = built(tmp_path, recipe)
    names = [row["name"] for row in report["mixed_precision"]["chosen"]]
    by_hand, _ = built(tmp_path, recipe.replace("hp: auto", f"hp: {json.dumps(names)}"))
    assert "mixed_precision" not in by_hand
    assert by_hand["artifact"] == report["artifact"]


def test_the_dry_run_knows_the_choice_too(tmp_path: Path, eight_bits_db: float) -> None:
    recipe = write_project(tmp_path, auto(f"{{sqnr_db: {eight_bits_db + 3.0:.2f}}}"))
    found = pipeline.preview(make_build(recipe))
    assert any("hp" in op.tags for op in found.program.ops)


def test_a_budget_buys_accuracy_and_is_kept(tmp_path: Path, eight_bits_db: float) -> None:
    found = []
    for budget in (200, 2000):
        folder = tmp_path / str(budget)
        folder.mkdir()
        recipe = auto("{sqnr_db: 1}").replace("hp: auto", f"hp: auto, budget: {budget}")
        report, _ = built(folder, recipe)
        chosen = report["mixed_precision"]
        assert chosen["certificate"] == "budget"
        assert sum(row["extra_weight_bytes"] for row in chosen["chosen"]) <= budget
        costs = [row["extra_weight_bytes"] for row in chosen["pareto"]]
        gained = [row["sqnr_db"] for row in chosen["pareto"]]
        for row in chosen["layers"]:  # a decibel is a ratio of noises: what one layer alone takes off it
            if "rank" in row:
                ratio = 10 ** ((chosen["pareto"][0]["sqnr_db"] - row["alone_in_16_bits_sqnr_db"]) / 10)
                assert row["noise_removed"] == pytest.approx(1 - ratio)
                kib = row["extra_weight_bytes"] / 1024
                assert row["noise_removed_per_kib"] == (pytest.approx((1 - ratio) / kib) if kib else None)
        assert any("rank" in row for row in chosen["layers"])
        assert costs == sorted(costs)
        assert gained == sorted(gained)
        found.append(report["verify"]["float_vs_program"]["sqnr_db"])
    assert eight_bits_db - 0.5 < found[0] < found[1]


def test_gates_beyond_16_bits_end_with_the_best_that_was_reached(tmp_path: Path) -> None:
    recipe = write_project(tmp_path, auto("{sqnr_db: 200}"))
    with pytest.raises(GateFailedError, match="fail even with all 9 layers in 16 bits") as caught:
        pipeline.run(make_build(recipe), tmp_path / "out")
    assert "sqnr_db at least 200" in caught.value.reason
    assert "; the best that was reached is cosine 1.0" in caught.value.reason
    assert caught.value.where.endswith("recipe.yaml:13:12")


def test_where_all_has_16_bits_there_is_nothing_to_choose(tmp_path: Path) -> None:
    recipe = write_project(tmp_path, AUTO.replace("precision: int8", "precision: int16"))
    with pytest.raises(RecipeError, match="every layer has 16 bits already"):
        pipeline.run(make_build(recipe), tmp_path / "out")


def test_a_gate_of_the_task_is_searched_for_too(tmp_path: Path) -> None:
    """Agreement in top-1 of every image: the search ends where the task's gate holds, not a distance's."""
    recipe = AUTO.replace(GATES, "verify: {task: {kind: classification}, gates: {top1_agreement: 1.0}}")
    report, _ = built(tmp_path, recipe)
    assert report["mixed_precision"]["gates"] == {"top1_agreement": 1.0}
    agreement = report["verify"]["task"]["metrics"][0]
    assert (agreement["name"], agreement["program"]) == ("top1_agreement", 1.0)


def test_a_correction_that_the_target_does_not_offer_is_refused(tmp_path: Path) -> None:
    recipe = AUTO.replace("targets:", "calibration: {corrections: [adaround]}\ntargets:")
    with pytest.raises(RecipeError, match="does not offer the correction adaround"):
        built(tmp_path, recipe)


def test_layers_whose_weights_a_correction_changes_are_not_searched(tmp_path: Path) -> None:
    recipe = AUTO.replace("targets:", "calibration: {corrections: [equalize]}\ntargets:")
    with pytest.raises(RecipeError, match="of the network as it is, and 'equalize' would change their weights"):
        built(tmp_path, recipe)
