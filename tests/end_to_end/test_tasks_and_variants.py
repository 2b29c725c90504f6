"""A recipe's task is scored beside float and gated; one recipe builds several variants of a target."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nnkit_command import run_nnkit
from small_project import write_project


def nnkit(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_nnkit(*arguments)


def with_lines(recipe: Path, old: str, new: str) -> Path:
    text = recipe.read_text()
    assert old in text
    recipe.write_text(text.replace(old, new))
    return recipe


def report(out: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "small" / key / "report.json").read_text())
    return found


def test_two_variants_of_a_target_are_two_builds(tmp_path: Path) -> None:
    recipe = write_project(tmp_path)
    text = recipe.read_text()
    start = text.index("targets:")
    line_end = text.index("\n", text.index("gap8:"))
    recipe.write_text(text[:start] + "targets:\n  gap8: {}\n  gap8@int8: {precision: int8}\n" + text[line_end + 1 :])
    out = tmp_path / "out"
    done = nnkit("run", recipe, "--out", out, "--no-qemu")
    assert done.returncode == 0, done.stderr
    assert report(out, "gap8")["outputs"][0]["bits"] == 16
    assert report(out, "gap8@int8")["target"] == "gap8@int8"
    assert report(out, "gap8@int8")["outputs"][0]["bits"] == 8
    one = nnkit("run", recipe, "--out", tmp_path / "one", "--no-qemu", "--target", "gap8@int8")
    assert one.returncode == 0, one.stderr
    assert [p.name for p in (tmp_path / "one" / "small").iterdir()] == ["gap8@int8"]
    compared = nnkit("compare", out / "small" / "gap8", out / "small" / "gap8@int8")
    assert compared.returncode == 1  # they differ, and both could be opened
    assert "layers differ" in compared.stderr


def test_a_variant_needs_a_plain_name(tmp_path: Path) -> None:
    recipe = with_lines(write_project(tmp_path), "gap8:", "gap8@a/b:")
    done = nnkit("check", recipe)
    assert done.returncode == 2
    assert "'gap8@a/b' cannot name a build" in done.stderr


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """The small project with its verification images in folders by person."""
    recipe = write_project(tmp_path)
    for index, image in enumerate(sorted((tmp_path / "images").iterdir())):
        folder = tmp_path / "people" / f"p{index // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(image, folder / image.name)
    return recipe


def test_verification_is_scored_over_all_pairs(people: Path, tmp_path: Path) -> None:
    images = len(list((tmp_path / "people").rglob("*.png")))
    recipe = with_task(
        people, "{kind: verification, identity: parent_folder, false_positive_rate: 0.3}", "{drop: 1.0}"
    )
    done = nnkit("run", recipe, "--out", tmp_path / "out", "--no-qemu")
    assert done.returncode == 0, done.stderr
    task = report(tmp_path / "out", "gap8")["verify"]["task"]
    assert task["kind"] == "verification"
    assert task["facts"]["same_pairs"] == images // 2
    assert task["facts"]["same_pairs"] + task["facts"]["different_pairs"] == images * (images - 1) / 2
    assert {m["name"] for m in task["metrics"]} >= {"recall", "verification_accuracy"}
    assert "task     recall" in done.stdout


def test_a_task_gate_fails_the_build(people: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("0.png,1\n")  # which the network thinks the least likely
    recipe = with_task(people, "{kind: classification, labels: labels.csv}", "{top1_accuracy: 0.5}")
    done = nnkit("run", recipe, "--out", tmp_path / "out", "--no-qemu")
    assert done.returncode == 1
    assert "gate top1_accuracy: 0 (float 0) measured, at least 0.5 demanded" in done.stderr


@pytest.mark.parametrize(
    ("task", "gates", "said"),
    [
        ("null", "{recall: 0.9}", "'recall' is measured for verification, but there is no task"),
        ("{kind: classification}", "{recall: 0.9}", "but the task is classification"),
        ("{kind: classification}", "{top1_accuracy: 0.9}", "needs what is true of the images"),
        ("null", "{drop: 0.01}", "there is no task whose metrics could drop"),
        ("{kind: verification}", "{recall: 0.9}", "neither identity nor pairs is given"),
    ],
)
def test_a_gate_without_its_task_is_refused(people: Path, task: str, gates: str, said: str) -> None:
    done = nnkit("check", with_task(people, task, gates))
    assert done.returncode == 2
    assert said in done.stderr


def with_task(recipe: Path, task: str, gates: str) -> Path:
    text = recipe.read_text()
    start = text.index("verify:")
    end = next(
        (i for i in range(text.index("\n", start) + 1, len(text)) if text[i - 1] == "\n" and text[i] != " "),
        len(text),
    )
    section = f"verify:\n  images: people/*/*.png\n  task: {task}\n  gates: {gates}\n"
    recipe.write_text(text[:start] + section + text[end:])
    return recipe
