"""JSON, YAML, CSV and ONNX files: what libraries say of damaged ones becomes one error with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnkit.errors import RecipeError, UserFileError
from nnkit.preprocess.decode import check_regular_file
from nnkit.reading import is_broken_link, read_bytes, read_csv, read_json, read_json_object, read_onnx, read_yaml
from nnkit.recipe import RecipePath, load_recipe

Reader = Callable[..., Any]


@pytest.mark.parametrize(
    ("reader", "data", "said", "place"),
    [
        (read_json, b'{"a": \n,}', "not valid JSON", ":2:1"),
        (read_json, b"[" * 100_000, "nested too deep", ""),
        (read_json, b"9" * 5000, "too many digits", ""),
        (read_json, b'{"a\\ud800": 1}', "half a character", ""),
        (read_json, b"{}\n\xff", "not UTF-8 text", ":2"),
        (read_json_object, b"[]", "not a JSON object", ""),
        (read_yaml, b"a: [1\nb: 2", "not plain YAML", ":2:2"),
        (read_yaml, b"[" * 5000, "nested too deep", ""),
        (read_yaml, b"a: \x01", "a character is not allowed", ""),
        (read_yaml, b'a: "\\UFFFFFFFF"', "a character is not allowed", ""),
        (read_yaml, b"a: &x [1]\nb: *x\n", "an alias stands for another value", ":2"),
        (read_yaml, b"a: 2001-13-01", "a value that cannot be read", ""),
        (read_yaml, b"a: " + b"9" * 5000, "a value that cannot be read", ""),
        (read_yaml, b"a: !!python/object/apply:os.system [id]", "a value that cannot be read", ""),
        (read_csv, b"a,1\n" + b"x" * 200_000, "field larger than field limit", ":2"),
        (read_onnx, b"\x0a\xff\xff", "no ONNX model", ""),
        (read_onnx, b"", "no ONNX model", ""),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, reader: Reader, data: bytes, said: str, place: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UserFileError, match=said) as caught:
        reader(path, what="the file", remedy="write it again")
    assert caught.value.where.startswith(f"{path}{place}")
    assert caught.value.remedy == "write it again"


def test_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1, 2.5]}')
    for reader in (read_json, read_json_object, read_yaml):
        assert reader(path, what="the file", remedy="") == {"a": [1, 2.5]}
    path.write_bytes(b'a,"b,c"\nd,e\n')
    assert read_csv(path, what="the file", remedy="") == [(1, ["a", "b,c"]), (2, ["d", "e"])]


def test_too_large_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    with pytest.raises(UserFileError, match="has 100 bytes; the limit is 100"):
        read_bytes(tmp_path / "file", what="the file", limit_bytes=100)


def test_links_that_lead_nowhere_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    assert all(is_broken_link(tmp_path / name) for name in ("loop", "gone"))
    assert not any(is_broken_link(tmp_path / name) for name in ("file", "link", "none"))
    with pytest.raises(UserFileError, match="a link that leads to no file"):
        check_regular_file(tmp_path / "loop")
    with pytest.raises(RecipeError, match="'loop' is a link that leads to no file"):
        RecipePath(text="loop", written="loop", folder=tmp_path).existing_file("the model")
    with pytest.raises(RecipeError, match="links lead in a circle") as caught:
        load_recipe(tmp_path / "loop", target_models={})
    assert "without links" in str(caught.value)
