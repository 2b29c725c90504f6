"""Values and places through anchors, merges, includes and variables; every place is found again in the text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnkit.recipe import InvalidRecipeError
from nnkit.recipe.document import load_document
from nnkit.recipe.problems import Place

Write = Callable[[str, str], Path]


def text_at(place: Place) -> str:
    """What stands at a place, to the end of its line."""
    return Path(place.folder, Path(place.file).name).read_text().splitlines()[place.line - 1][place.column - 1 :]


def problem_of(path: str, environ: dict[str, str] | None = None) -> InvalidRecipeError:
    with pytest.raises(InvalidRecipeError) as caught:
        load_document(path, environ=environ or {})
    return caught.value


def test_values_and_places(write: Write) -> None:
    write("r.yaml", "a: 1\nb:\n  - x: yes\n    'y z': [2.5, null]\n  - {k: \"v\"}\n")
    document = load_document("r.yaml", environ={})
    assert document.data == {"a": 1, "b": [{"x": "yes", "y z": [2.5, None]}, {"k": "v"}]}
    assert str(document.place(("b", 0, "y z", 1))) == "r.yaml:4:18"
    assert text_at(document.place(("b", 0, "y z"), key=True)) == "'y z': [2.5, null]"
    assert text_at(document.place(("b", 1, "k"))) == '"v"}'
    assert text_at(document.place(("b",))) == "- x: yes"
    assert text_at(document.place(("b",), key=True)) == "b:"
    assert text_at(document.place(("b", 1, "missing", 3))) == '{k: "v"}'
    assert str(document.place(("none",))) == "r.yaml:1:1"


def test_keys_are_text_as_written(write: Write) -> None:
    write("r.yaml", "0: a\ninput.1: b\ntrue: c\n1.50: d\n")
    assert load_document("r.yaml").data == {"0": "a", "input.1": "b", "true": "c", "1.50": "d"}


def test_anchors_and_merges(write: Write) -> None:
    write("r.yaml", "base: &b {x: 1, y: [2]}\nuse: {<<: *b, x: 5}\nboth:\n  <<: [{z: 1}, *b, {z: 2}]\ncopy: *b\n")
    document = load_document("r.yaml")
    assert document.data["use"] == {"x": 5, "y": [2]}
    assert document.data["both"] == {"z": 1, "x": 1, "y": [2]}
    assert document.data["copy"] == document.data["base"]
    assert document.data["copy"] is not document.data["base"]
    assert str(document.place(("use", "y", 0))) == "r.yaml:1:21"
    assert str(document.place(("copy", "x"), key=True)) == "r.yaml:1:11"


def test_a_quoted_merge_key_is_a_key(write: Write) -> None:
    write("r.yaml", "'<<': {x: 1}\n")
    assert load_document("r.yaml").data == {"<<": {"x": 1}}


def test_includes_keep_their_own_places(write: Write) -> None:
    write(
        "r.yaml",
        "a: !include parts/one.yaml\nlist: [!include parts/two.yaml, 3]\n<<: !include parts/base.yaml\nb: own\n",
    )
    write("parts/one.yaml", "# first\nx:\n  y: !include two.yaml\n")
    write("parts/two.yaml", "twice\n")
    write("parts/base.yaml", "b: theirs\nc: 4\n")
    document = load_document("r.yaml")
    assert document.data == {"a": {"x": {"y": "twice"}}, "list": ["twice", 3], "b": "own", "c": 4}
    assert str(document.place(("a", "x"), key=True)) == "parts/one.yaml:2:1"
    assert str(document.place(("a", "x", "y"))) == "parts/two.yaml:1:1"
    assert str(document.place(("a",), key=True)) == "r.yaml:1:1"
    assert str(document.place(("c",))) == "parts/base.yaml:2:4"
    assert document.sources[0].name == "r.yaml"
    assert {path.name for path in document.sources[1:]} == {"one.yaml", "two.yaml", "base.yaml"}


def test_includes_with_variables_and_from_above(write: Write, tmp_path: Path) -> None:
    write("deep/r.yaml", "a: !include ../top.yaml\nb: !include ${WHERE}/top.yaml\nc: !include ${NONE:-..}/top.yaml\n")
    write("top.yaml", "t: 1\n")
    document = load_document("deep/r.yaml", environ={"WHERE": str(tmp_path)})
    assert document.data == {"a": {"t": 1}, "b": {"t": 1}, "c": {"t": 1}}


def test_circular_includes_name_the_chain(write: Write) -> None:
    write("r.yaml", "a: !include one.yaml\n")
    write("one.yaml", "b:\n  - !include two.yaml\n")
    write("two.yaml", "<<: !include r.yaml\n")
    error = problem_of("r.yaml")
    assert error.where == "two.yaml:1:5"
    assert error.reason == "the includes form a circle: r.yaml -> one.yaml -> two.yaml -> r.yaml"
    write("self.yaml", "a: !include ./self.yaml\n")
    assert "circle: self.yaml -> ./self.yaml" in problem_of("self.yaml").reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("!include none.yaml", "the file 'none.yaml' does not exist"),
        ("!include .", "is a folder"),
        ("!include", "!include needs the name of one file"),
        ("!include [a, b]", "!include needs the name of one file"),
        ("!include https://example.org/a.yaml", "!include reads files, not URLs"),
        ("!include ${NONE}/a.yaml", "the environment variable NONE is not set"),
        ("!include empty.yaml", "the file is empty"),
        ("!include broken.yaml", "the file ends inside a '[' list"),
    ],
)
def test_bad_includes(write: Write, value: str, reason: str) -> None:
    write("empty.yaml", "# nothing\n")
    write("broken.yaml", "x: [\n")
    write("r.yaml", f"a: 1\nb: {value}\n")
    error = problem_of("r.yaml")
    assert reason in error.reason
    assert error.where in ("r.yaml:2:4", "empty.yaml:1:1", "broken.yaml:2:1")


def test_too_many_files(write: Write) -> None:
    write("r.yaml", "".join(f"k{i}: !include f{i}.yaml\n" for i in range(120)))
    for i in range(120):
        write(f"f{i}.yaml", "1\n")
    assert "more than 100 files" in problem_of("r.yaml").reason


def test_an_include_bomb_is_refused(write: Write) -> None:
    for i in range(9):
        write(f"f{i}.yaml", "[" + ", ".join([f"!include f{i + 1}.yaml"] * 10) + "]\n")
    write("f9.yaml", "[1]\n")
    assert "expands to more than 30,000 values" in problem_of("f0.yaml").reason


def test_variables_in_values_only(write: Write) -> None:
    write("r.yaml", "${X}: [\"${X}\", '$${X}', 3]\nblock: |\n  ${X}\nfolded: a ${X:-y}\n")
    document = load_document("r.yaml", environ={"X": "1"})
    assert document.data == {"${X}": ["1", "${X}", 3], "block": "1\n", "folded": "a 1"}
    assert document.raw[("${X}", 0)] == "${X}"
    assert set(document.expansions) == {("${X}", 0), ("${X}", 1), ("block",), ("folded",)}


def test_the_process_environment_is_the_default(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_TEST_VALUE", "seen")
    write("r.yaml", "a: ${NNKIT_TEST_VALUE}\n")
    assert load_document("r.yaml").data == {"a": "seen"}


def test_what_is_wrong_in_the_text_is_reported_together(write: Write) -> None:
    write("r.yaml", "a: ${ONE}\nb: 1\nb: 2\nc: &x ${TWO}\nd: *x\ne: !tag 1\n")
    error = problem_of("r.yaml")
    assert [problem.where for problem in error.problems] == ["r.yaml:1:4", "r.yaml:3:1", "r.yaml:4:4", "r.yaml:6:4"]
    assert str(error).count("\n    fix: ") == 4
    assert os.fspath("r.yaml: 4 problems in the recipe") in str(error)
