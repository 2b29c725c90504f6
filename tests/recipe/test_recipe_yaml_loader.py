"""One file: syntax errors at their place, limits, encodings, and no input that gives anything but our error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nnkit.errors import ExitCode, RecipeError
from nnkit.recipe import InvalidRecipeError
from nnkit.recipe.document import load_document

Write = Callable[[str, str], Path]


def refused(path: str | Path) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        load_document(path, environ={})
    assert caught.value.exit_code == ExitCode.USER
    assert caught.value.where
    assert caught.value.remedy or "\n" in caught.value.reason
    return caught.value


SYNTAX = [
    ("a:\n\tb: 1\n", "2:1", "a tab stands where indentation is expected"),
    ("a: 1\n b: 2\n", "2:3", "a ':' stands where no key can be"),
    ("a: b: c\n", "1:5", "a ':' stands where no key can be"),
    ("a:\n  b: 1\n c: 2\n", "3:2", "the indentation does not match the lines above"),
    ("a: 1\nb\n", "3:1", "a key has no ':' after it"),
    ("a: [1, 2\n", "2:1", "a '[' list is not closed, or lacks a ','"),
    ("a: {b: 1\n", "2:1", "a '{' section is not closed, or lacks a ','"),
    ("a: 'x\n", "2:1", "a quote is not closed"),
    ("a: *b\n", "1:4", "the alias has no anchor before it"),
    ("a: &x 1\nb: &x 2\n", "2:4", "the anchor is defined twice"),
    ("a: 1\n---\nb: 2\n", "2:1", "a second YAML document begins here"),
    ("a: @b\n", "1:4", "this character cannot begin a value"),
    ("a: [${H}, 1]\n", "1:6", "a variable inside [ ] or { } must be quoted"),
    ("a: 'x'\nb: \x07\n", "2:4", "a control character (U+0007) stands in the text"),
    ('a: "\\U00110000"\n', "1:", "an escape names no character"),
    ('a: "\\ud800"\n', "1:4", "the text holds half a character"),
    (
        "a: !!python/object/apply:os.system [echo]\n",
        "1:4",
        "the tag '!!python/object/apply:os.system' is not allowed",
    ),
    ("a: !custom 1\n", "1:4", "the tag '!custom' is not allowed"),
    ("a: !!binary aGk=\n", "1:4", "the tag '!!binary' is not allowed"),
    ("a: !!int x\n", "1:4", "'x' is not a value of type int"),
    ("a: 1e999\n", "1:4", "'1e999' is too large for a number"),
    ("? [a]\n: 1\n", "1:3", "a key must be plain text"),
    ("{: 1}\n", "1:2", "a key or a value is missing here"),
    ("? \n: 1\n", "1:2", "a key is missing before the ':'"),
    ("a: 1\nb: 2\na: 3\n", "3:1", "the key 'a' is given twice, first in line 1"),
    ("a: {x: 1, 'x': 2}\n", "1:11", "the key 'x' is given twice"),
    ("", "1:1", "the file is empty"),
    ("# only a comment\n", "1:1", "the file is empty"),
    ("--- ~\n...\n%\n", "3:", "the YAML syntax is wrong"),
]


@pytest.mark.parametrize(("text", "place", "reason"), SYNTAX)
def test_syntax_errors_have_a_place_and_plain_words(write: Write, text: str, place: str, reason: str) -> None:
    write("r.yaml", text)
    error = refused("r.yaml")
    assert error.where.startswith(f"r.yaml:{place}")
    assert reason in error.reason


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes("\ufeffa: é\r\nb: [1]\r\n".encode())
    document = load_document(path)
    assert document.data == {"a": "é", "b": [1]}
    assert (document.keys[("b",)].line, document.keys[("b",)].column) == (2, 1)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    error = refused(path)
    assert error.where == f"{path}:2:7"
    assert error.reason == "the file is not UTF-8 text"
    path.write_bytes("a: 1\n".encode("utf-16"))
    assert refused(path).reason == "the file is not UTF-8 text"


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.yaml").reason
    assert "is a folder" in refused(tmp_path).reason
    (tmp_path / "recipe.yaml").write_text("a: 1\n")
    assert "recipe.yaml" in refused(tmp_path).remedy
    os.mkfifo(tmp_path / "pipe.yaml")
    assert "not a regular file" in refused(tmp_path / "pipe.yaml").reason
    assert "not a file name" in refused("a\0b").reason or "cannot be read" in refused("a\0b").reason
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * ((1 << 20) + 1))
    assert "larger than 1 MiB" in refused(big).reason


HOSTILE = {
    "deep flow": "[" * 100_000,
    "deep flow mappings": "{a: " * 20_000,
    "deep block": "\n".join(" " * i + "a:" for i in range(1000)),
    "deep sequences": "- " * 2000 + "x",
    "many nodes": "[" + "1," * 300_000 + "]",
    "laughs": "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)),
    "merge laughs": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 12)),
    "empty merge laughs": "a0: &a0 {}\n"
    + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 100)}]}}\n" for i in range(1, 6)),
    "chain of merges": "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 3000)),
    "chain of aliases": "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000)),
    "self": "a: &a [*a]\n",
    "self mapping": "&a\nx: *a\n",
    "self merge": "a: &a {<<: *a}\n",
    "self merge list": "a: &a {<<: &b [*b]}\n",
    "long number": "a: " + "9" * 100_000,
    "long key": "? " + "k" * 500_000 + "\n: !x 1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_good_time(write: Write, name: str) -> None:
    write("r.yaml", HOSTILE[name])
    start = time.process_time()
    assert len(str(refused("r.yaml"))) < 1000
    assert time.process_time() - start < 20


INDICATORS = [*"a[]{},#%~$'\"|>\t\n", "b: ", "- ", "? ", "\n  ", "&x ", "*x", "<<: ", "---\n", "...\n"]
SPECIAL = ["!include r.yaml", "!!int ", "!t ", "${A}", "1e3", "\\u", "\x85", "é"]
YAML_PIECES = st.lists(st.sampled_from([*INDICATORS, *SPECIAL]), max_size=25).map("".join)


def read_or_refused(path: Path) -> bool:
    """Whether a file loads, or gives our error with a place; any other exception passes through."""
    try:
        return load_document(path, environ={"A": "1"}).place(()).line >= 1
    except InvalidRecipeError as error:
        return all(problem.where and problem.reason and problem.remedy for problem in error.problems)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(YAML_PIECES, st.text(max_size=60)))
@example("- !include r.yaml")
@example("<<: [!include r.yaml]")
@example("!!map a")
@example("!!seq {}")
@example("!!str {}")
@example("? - \n")
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    assert read_or_refused(path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(data)
    assert read_or_refused(path)
