"""Globs to files: order, spread, and globs that match nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nnkit.errors import ExitCode, RecipeError
from nnkit.preprocess import list_images
from nnkit.preprocess.files import named, spread
from nnkit.recipe import RecipePath


def _touch(base: Path, *names: str) -> None:
    for name in names:
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).touch()


def _listed(base: Path, globs: str | list[str], count: int | None = None) -> list[str]:
    return [path.relative_to(base).as_posix() for path in list_images(globs, base, count)]


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    _touch(tmp_path, "s10/1.pgm", "s2/10.pgm", "s2/9.pgm", "s2/b.pgm", "s2/a.png", "s1/1.pgm", "s2/010.pgm")
    expected = ["s1/1.pgm", "s2/9.pgm", "s2/010.pgm", "s2/10.pgm", "s2/b.pgm", "s10/1.pgm"]
    assert _listed(tmp_path, "*/*.pgm") == expected
    assert _listed(tmp_path, "**/*.pgm") == expected


def test_files_in_the_folder_itself_and_below(tmp_path: Path) -> None:
    _touch(tmp_path, "a.png", "x/b.png", "x/y/c.png")
    assert _listed(tmp_path, "**/*.png") == ["a.png", "x/b.png", "x/y/c.png"]
    assert _listed(tmp_path, "*.png") == ["a.png"]


def test_each_file_once_over_several_globs(tmp_path: Path) -> None:
    _touch(tmp_path, "a1.png", "a2.png", "b1.png")
    assert _listed(tmp_path, ["b*.png", "*1.png", "./a1.png", "a*"]) == ["a1.png", "a2.png", "b1.png"]


def test_a_name_with_glob_characters_is_taken_literally(tmp_path: Path) -> None:
    _touch(tmp_path, "a[1].png", "a1.png")
    assert _listed(tmp_path, "a[1].png") == ["a[1].png"]


def test_links_that_lead_nowhere_are_listed_for_the_reader_to_report(tmp_path: Path) -> None:
    _touch(tmp_path, "a.png", "folder.png/x.png")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")
    (tmp_path / "linked.png").symlink_to(tmp_path / "a.png")
    expected = ["a.png", "gone.png", "linked.png"]
    assert _listed(tmp_path, "*.png") == expected
    assert [path.name for path in RecipePath("*.png", "r.yaml:1:1", tmp_path).matches()] == expected


def test_count_spreads_over_the_list(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"{index}.png" for index in range(10)))
    assert _listed(tmp_path, "*.png", 5) == ["0.png", "2.png", "4.png", "6.png", "8.png"]
    assert _listed(tmp_path, "*.png", 3) == ["0.png", "3.png", "6.png"]
    assert len(_listed(tmp_path, "*.png", 99)) == 10
    assert spread(range(7), 7) == list(range(7))
    assert spread(range(3), None) == [0, 1, 2]


@pytest.mark.parametrize(("pattern", "reason"), [("*.jpg", "matches no file"), ("fol*", "matches folders only")])
def test_a_glob_without_files_is_an_error_at_its_place(tmp_path: Path, pattern: str, reason: str) -> None:
    _touch(tmp_path, "folder/a.png", "a.png")
    with pytest.raises(RecipeError, match=reason) as caught:
        list_images(["*.png", pattern], tmp_path, where="recipe.yaml:9:15")
    assert caught.value.where == "recipe.yaml:9:15"
    assert caught.value.exit_code is ExitCode.USER
    assert str(tmp_path) in caught.value.remedy


def test_recipe_paths_know_their_folder_and_place(tmp_path: Path) -> None:
    _touch(tmp_path, "2.png", "10.png")
    path = RecipePath(text="*.png", written="*.png", folder=tmp_path, where="r.yaml:1:1")
    assert [found.name for found in list_images((path,), Path("elsewhere"))] == ["2.png", "10.png"]
    missing = RecipePath(text="*.jpg", written="*.jpg", folder=tmp_path, where="r.yaml:1:1")
    with pytest.raises(RecipeError) as caught:
        list_images(missing, tmp_path)
    assert caught.value.where == "r.yaml:1:1"


def test_count_below_one(tmp_path: Path) -> None:
    _touch(tmp_path, "a.png")
    with pytest.raises(RecipeError, match="count is 0"):
        list_images("*.png", tmp_path, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are texts elsewhere")
def test_a_name_that_is_no_text_is_shown_with_escapes(tmp_path: Path) -> None:
    """As archives from other systems leave it; reports and tables are UTF-8."""
    path = tmp_path / os.fsdecode(b"im\xffage.png")
    path.touch()
    assert [named(each, tmp_path) for each in list_images("*.png", tmp_path)] == ["im\\xffage.png"]
    assert named(path, None) == f"{tmp_path}/im\\xffage.png"
    assert named(tmp_path / "ö b.png", tmp_path) == "ö b.png"
