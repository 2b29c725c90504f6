"""Globs match as Python's do, and end in a message where they would look at too much."""

from __future__ import annotations

import glob
import inspect
import os
import random
import sys
from pathlib import Path

import pytest
from small_project import RECIPE, write_project

from nnkit.api.checking import check
from nnkit.errors import RecipeError
from nnkit.reading import matching, matching_files

NAMES = ["a", "b1", "b2", ".h", "x.png", "y.png", "[z]"]
PATTERNS = [
    *(
        "*",
        "*.png",
        "**",
        "**/*",
        "**/*.png",
        "a/*",
        "a/**",
        "**/a/*.png",
        "*/*",
        ".*",
        "b[12]/*",
        "[[]z]/*",
        "[[]z]",
    ),
    *("a", "nothing", "a/../*", "./*.png", "**/**/*.png", "*/", "**/", "b?/**/x.png", "a/x.png", ".h/*", "**/.h"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders and files of few names, three levels deep, and links to folders."""
    folder = tmp_path_factory.mktemp("tree")
    drawn = random.Random(1)
    folders = [folder]
    for depth in range(3):
        for inside in list(folders):
            for name in drawn.sample(NAMES, 4):
                path = inside / name
                if path.exists():
                    continue
                if name.endswith(".png") or depth == 2:
                    path.touch()
                else:
                    path.mkdir()
                    folders.append(path)
    (folder / "link").symlink_to(folders[1])
    (folder / "gone").symlink_to("nowhere")
    return folder


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_glob_matches_the_files_that_python_s_does(tree: Path, pattern: str) -> None:
    def files(names: list[str]) -> set[str]:
        return {os.path.normpath(tree / name) for name in names if not (tree / name).is_dir()}

    assert files(matching(pattern, tree)) == files(glob.glob(pattern, root_dir=tree, recursive=True))
    whole = f"{glob.escape(str(tree))}/{pattern}"
    assert files(matching(whole, Path("elsewhere"))) == files(glob.glob(whole, recursive=True))


def test_folders_in_folders_take_no_stack(tmp_path: Path) -> None:
    (tmp_path / "/".join(["d"] * 300)).mkdir(parents=True)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        assert len(matching("**/*", tmp_path)) == 300
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("name", "limit", "reason"),
    [("MOST_ENTRIES", 10, "looks at more than 10 files and folders"), ("MOST_SECONDS", -1.0, "for more than")],
)
def test_a_glob_ends_at_its_bounds(
    tmp_path: Path, name: str, limit: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(1100):
        (tmp_path / f"{index}.png").touch()
    assert len(matching("*.png", tmp_path)) == 1100
    monkeypatch.setattr(matching_files, name, limit)
    for pattern in ("*.png", "**/*.txt"):
        with pytest.raises(RecipeError, match=reason) as caught:
            matching(pattern, tmp_path, where="recipe.yaml:3:5")
        assert caught.value.where == "recipe.yaml:3:5"
        assert "name the folder that the files lie in" in caught.value.remedy
    assert matching("7.png", tmp_path) == ["7.png"]


def test_what_a_glob_matches_takes_so_much_memory_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aaaa.png", "bbbb.png", "cccc.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr(matching_files, "MOST_LETTERS", 16)
    assert matching("*.png", tmp_path) == ["aaaa.png", "bbbb.png"]
    with pytest.raises(RecipeError, match="matches names of more than 16 letters"):
        matching("*", tmp_path)


def test_links_that_lead_to_each_other_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 such links there are some 3 to the power of 40 paths."""
    monkeypatch.setattr(matching_files, "MOST_ENTRIES", 5000)
    for name in "abc":
        (tmp_path / name).symlink_to(".")
    with pytest.raises(RecipeError, match="looks at more than 5,000 files"):
        matching("**/*.png", tmp_path)


def test_the_recipe_s_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching_files, "MOST_ENTRIES", 2)
    recipe = write_project(tmp_path, RECIPE)
    with pytest.raises(RecipeError, match="looks at more than 2 files") as caught:
        check(recipe)
    assert caught.value.where.startswith(f"{recipe}:8")
