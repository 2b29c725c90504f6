"""Sizes in bytes, paths, and names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from nnkit.errors import RecipeError
from nnkit.recipe.types import FileName, PathGlobs, RecipePath, parse_byte_size


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        (0, 0),
        (524288, 524288),
        ("512KiB", 524288),
        ("512 KiB", 524288),
        ("1.5MiB", 1572864),
        ("0.0009765625KiB", 1),
        ("8GiB", 8 * 1024**3),
        ("17B", 17),
        ("17", 17),
        (" 64KiB ", 65536),
    ],
)
def test_sizes(written: object, size_bytes: int) -> None:
    assert parse_byte_size(written) == size_bytes


@pytest.mark.parametrize(
    "written",
    [
        *(-1, 1.5, True, None, [], "", "-1KiB", "KiB", "512kb", "512KB", "1M", "0.3KiB"),
        *("1e3", "١KiB", "5 XiB", "1KiBs", "1.5", "9" * 30),
    ],
)
def test_bad_sizes_show_the_forms(written: object) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_byte_size(written)
    assert "KiB, MiB or GiB" in caught.value.context["faults"][0].remedy  # type: ignore[index]


def test_a_decimal_unit_is_answered_with_the_binary_one() -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_byte_size("512kb")
    assert caught.value.context["faults"][0].remedy.startswith("write 512KiB")  # type: ignore[index]


def test_paths_compare_as_written() -> None:
    assert RecipePath("a", "${X}/a", Path("/x"), "r.yaml:1:1") == RecipePath("b", "${X}/a")
    assert RecipePath.of("a$b").written == "a$$b"


def test_existing_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"x")
    path = RecipePath("net.onnx", "net.onnx", tmp_path, "r.yaml:4:9")
    assert path.existing_file() == tmp_path / "net.onnx"
    with pytest.raises(RecipeError, match=r"the model 'no\.onnx' does not exist") as caught:
        RecipePath("no.onnx", "no.onnx", tmp_path, "r.yaml:4:9").existing_file("the model")
    assert caught.value.where == "r.yaml:4:9"
    assert str(tmp_path / "no.onnx") in caught.value.remedy
    with pytest.raises(RecipeError, match="is a folder"):
        RecipePath(".", ".", tmp_path).existing_file()


def test_a_folder_that_is_left_again_is_not_in_a_path_unless_a_link_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/away")
    assert str(RecipePath("../net.onnx", "../net.onnx", tmp_path / "out").file) == str(tmp_path / "net.onnx")
    (tmp_path / "far/net.onnx").write_bytes(b"x")
    assert RecipePath("../net.onnx", "../net.onnx", tmp_path / "link").file.read_bytes() == b"x"


def test_globs_are_sorted_and_take_literal_names_first(tmp_path: Path) -> None:
    for name in ("b.pgm", "a.pgm", "sub/c.pgm", "odd[1].pgm", "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    def names(text: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in RecipePath(text, text, tmp_path).matches()]

    assert names("*.pgm") == ["a.pgm", "b.pgm", "odd[1].pgm"]
    assert names("**/*.pgm") == ["a.pgm", "b.pgm", "odd[1].pgm", "sub/c.pgm"]
    assert names("odd[1].pgm") == ["odd[1].pgm"]
    assert names(str(tmp_path / "a.*")) == ["a.pgm", "a.txt"]
    with pytest.raises(RecipeError, match=r"'\*.png' matches no file"):
        names("*.png")
    with pytest.raises(RecipeError, match="matches no file"):
        names("sub")


def test_a_folder_with_glob_characters_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "run[2]"
    folder.mkdir()
    (folder / "a.pgm").write_bytes(b"x")
    assert RecipePath("*.pgm", "*.pgm", folder).matches() == [folder / "a.pgm"]


class Holder(BaseModel):
    globs: PathGlobs


@pytest.mark.parametrize("written", ['{"globs": "a"}', '{"globs": ["a"]}'])
def test_one_or_many(written: str) -> None:
    holder = Holder.model_validate_json(written, strict=True)
    assert holder.globs == (RecipePath.of("a"),)
    assert holder.model_dump_json() == '{"globs":["a"]}'


def test_paths_in_code_may_be_given_as_objects() -> None:
    assert Holder(globs=(RecipePath.of("a"),)).globs == Holder(globs="a").globs  # type: ignore[arg-type]


@pytest.mark.parametrize("written", ['{"globs": []}', '{"globs": ""}', '{"globs": [" "]}', '{"globs": "http://x/a"}'])
def test_bad_globs(written: str) -> None:
    with pytest.raises(ValidationError):
        Holder.model_validate_json(written, strict=True)


@pytest.mark.parametrize("name", ["a", "gap8_reid", "A-1.2", "x" * 64])
def test_names(name: str) -> None:
    assert TypeAdapter(FileName).validate_python(name) == name


@pytest.mark.parametrize("name", ["", ".a", "a/b", "a b", "..", "a.", "é", "x" * 65, "-a", "a\n", "a\0"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(FileName).validate_python(name)
