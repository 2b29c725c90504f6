"""What is wrong in a deployment's recipe is said with place and remedy; `plan` and `check` take a deployment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from nnkit_command import run_nnkit

from nnkit.deployment import plan_deployment
from nnkit.errors import DoesNotFitError, NnkitError
from tests.deployment.conftest import RECIPE, build_of, write_networks

DESCRIBER = "    describer: {recipe: describer.yaml, target: gap8@small}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    write_networks(folder)
    (folder / "affine.yaml").write_text(
        (folder / "describer.yaml")
        .read_text()
        .replace("gap8@small: {precision: int8}", "gap8@small: {precision: int8, scheme: affine}")
    )
    return folder


def written(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


CASES = {
    "key_of_one_network": (("targets:\n", "tags: {}\ntargets:\n"), "tags: {}", "network's own recipe"),
    "two_targets": (("cores: 3}\n", "cores: 3}\n  onnx_qdq: {}\n"), "onnx_qdq", "a recipe for each target"),
    "tags_of_one_network": (("cores: 3}", "cores: 3, tags: {}}"), "tags: {}", "network's own recipe"),
    "name_not_of_c": (("finder", "Finder"), "Finder:", "small letters"),
    "unknown_detector": (("detector: finder", "detector: findr"), "detector: findr", "write one of"),
    "one_network_twice": (("descriptor: describer", "descriptor: finder"), "descriptor:", "name another network"),
    "unused_network": ((DESCRIBER, DESCRIBER + "    third: {recipe: finder.yaml}\n"), "third:", "remove it"),
    "long_name": (("{ada:", "{ada_lovelace:"), "ada_lovelace", "raise name_bytes"),
    "no_such_recipe": (("recipe: finder.yaml", "recipe: findr.yaml"), "findr.yaml", ""),
    "no_such_target": (("gap8@small", "gap8@tiny"), "gap8@tiny", "write one of gap8"),
    "which_target": ((", target: gap8@small", ""), "describer:", "add target: one of gap8"),
    "affine_scheme": (("describer.yaml", "affine.yaml"), "scheme: affine", "remove that line"),
    "name_of_the_whole": (("name: tiny", "name: finder"), "finder:", "another name"),
    "other_scale": (("[48, 64]", "[50, 64]"), "frame: [50, 64]", "multiple"),
}
"""A change of the recipe, a text in the line that the error names, and one of its remedy."""


@pytest.mark.parametrize("name", CASES)
def test_it_says_where_and_what_to_do(folder: Path, name: str) -> None:
    change, place, remedy = CASES[name]
    path = written(folder, name, change)
    with pytest.raises(NnkitError) as raised:
        plan_deployment(build_of(path))
    told = str(raised.value)
    file, line, _ = told.split(": ")[0].rsplit(":", 2)
    assert place in Path(file).read_text().splitlines()[int(line) - 1]
    assert remedy in told


def test_what_does_not_fit_says_how_much_is_needed(folder: Path) -> None:
    """A network gets what is left of L2: what it needs and what is kept together are enough, a word less is not."""
    with pytest.raises(DoesNotFitError, match=r"'describer'.*\n.*between them comes on top") as raised:
        plan_deployment(build_of(written(folder, "does_not_fit", ("l2: 64KiB", "l2: 9KiB"))))
    left, needed = (
        re.search(rf"{text} ([\d,]+) bytes", str(raised.value)) for text in ("fit the", "give L2 at least")
    )
    assert left is not None
    assert needed is not None
    enough = 9 * 1024 - int(left[1].replace(",", "")) + int(needed[1].replace(",", ""))
    plan_deployment(build_of(written(folder, "fits", ("l2: 64KiB", f"l2: {enough}"))))
    with pytest.raises(DoesNotFitError):
        plan_deployment(build_of(written(folder, "nearly", ("l2: 64KiB", f"l2: {enough - 4}"))))


def test_the_recipe_unchanged_is_right(folder: Path) -> None:
    assert build_of(written(folder, "right")).recipe.name == "tiny"


def nnkit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_nnkit(*words, cwd=folder)


def test_check_counts_frames_and_people(folder: Path) -> None:
    done = nnkit(folder, "check", str(written(folder, "checked")))
    assert done.returncode == 0, done.stderr
    assert "pipeline 4 frames, 2 people are enrolled" in done.stdout


def test_check_of_a_wrong_one_has_no_traceback(folder: Path) -> None:
    done = nnkit(folder, "check", str(written(folder, "wrong", ("detector: finder", "detector: findr"))))
    assert done.returncode != 0
    assert "there is no network 'findr'" in done.stderr
    assert "Traceback" not in done.stderr


def test_plan_tells_the_memory_of_all(folder: Path) -> None:
    done = nnkit(folder, "plan", str(written(folder, "planned")))
    assert done.returncode == 0, done.stderr
    for text in ("l2", "finder", "describer", "frame 3,072 B"):
        assert text in done.stdout
