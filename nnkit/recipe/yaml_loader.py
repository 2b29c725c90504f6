"""One YAML file to a tree of nodes with positions: strict, bounded in size and depth, and never executing.

`nnkit.recipe.document` turns the nodes into values and follows `!include`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from nnkit.did_you_mean import nearest
from nnkit.recipe.problems import InvalidRecipeError, Problem, shown
from nnkit.recipe.scalars import tag_of

_MOST_NAMED = 8
MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 50
MAX_NODES = 30_000
MAX_CHARACTERS = 4 << 20
"""Limits far above any recipe: they keep a broken or hostile file from exhausting time, memory or the stack."""

CORE_PREFIX = "tag:yaml.org,2002:"
MERGE_TAG = CORE_PREFIX + "merge"
INCLUDE_TAG = "!include"

_PLAIN_WORDS: tuple[tuple[str, str, str], ...] = (
    # PyYAML's words, ours, and the remedy
    ("'\\t' that cannot start any token", "a tab stands where indentation is expected", "indent with spaces"),
    (
        "mapping values are not allowed here",
        "a ':' stands where no key can be",
        "check the indentation, and quote text that contains ': '",
    ),
    (
        "could not find expected ':'",
        "a key has no ':' after it",
        "write `key: value`, and check the indentation",
    ),
    (
        "expected <block end>",
        "the indentation does not match the lines above",
        "indent the keys of one section by the same number of spaces",
    ),
    ("found undefined alias", "the alias has no anchor before it", "define it first: `key: &name value`"),
    ("second occurrence", "the anchor is defined twice", "give each anchor its own name"),
    (
        "but found another document",
        "a second YAML document begins here",
        "a recipe is one document: remove the `---`, or use `!include`",
    ),
    ("expected ',' or ']'", "a '[' list is not closed, or lacks a ','", "write [a, b, c]"),
    ("expected ',' or '}'", "a '{' section is not closed, or lacks a ','", "write {key: value, key: value}"),
    ("'<stream end>'", "the file ends inside a '[' list or a '{' section", "close it with ']' or '}'"),
    ("expected the node content", "a key or a value is missing here", "write `key: value`, or quote the text"),
    ("unexpected end of stream", "a quote is not closed", "close the quote on the same line"),
    ("that cannot start any token", "this character cannot begin a value", "put the text in quotes"),
)


class _LimitError(Exception):
    def __init__(self, reason: str, mark: yaml.Mark) -> None:
        super().__init__(reason)
        self.reason = reason
        self.mark = mark


class RecipeYaml(yaml.SafeLoader):
    """PyYAML's safe loader with the core schema of YAML 1.2 and limits; used for composing nodes only."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """The tag of a node without an explicit one."""
        if kind is yaml.ScalarNode:
            if not implicit[0]:
                return CORE_PREFIX + "str"
            return MERGE_TAG if value == "<<" else CORE_PREFIX + tag_of(value)
        return CORE_PREFIX + ("seq" if kind is yaml.SequenceNode else "map")

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node, counting it."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _LimitError(f"the file has more than {MAX_NODES:,} values", self._mark())
        return super().compose_node(parent, index)

    def fetch_flow_collection_start(self, token_class: Any) -> None:
        """Refuse deep `[[[...` in the scanner, before its cost per token grows with the depth."""
        if self.flow_level >= MAX_DEPTH:
            raise _LimitError(f"sections are nested more than {MAX_DEPTH} deep", self._mark())
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        """Refuse deep indentation in the scanner."""
        if len(self.indents) > MAX_DEPTH:
            raise _LimitError(f"sections are nested more than {MAX_DEPTH} deep", self._mark())
        return super().add_indent(column)

    def _mark(self) -> yaml.Mark:
        return self.get_mark()


def other_recipe(path: Path) -> str:
    """The remedy for a recipe that is not there: another one of its folder, where there is one."""
    try:
        names = sorted(each.name for each in path.parent.iterdir() if each.suffix in (".yaml", ".yml"))[:_MOST_NAMED]
    except OSError:
        return f"check the path: there is no folder {path.parent}"
    if not names:
        return "check the path, or write a recipe with `nnkit init MODEL`"
    match = nearest(path.name, names)
    return f"did you mean {path.with_name(match)}?" if match else f"check the path; its folder has {', '.join(names)}"


def read_text(path: Path, display: str, fail: Callable[[str, str], Exception], absent: str) -> str:
    """The text of a recipe file or fragment: a regular file of UTF-8, at most `MAX_FILE_BYTES` long.

    Args:
        path: the file.
        display: its name for messages about its content.
        fail: makes the exception for a file that cannot be read, from a reason and a remedy.
        absent: the remedy where there is no such file.

    Raises:
        InvalidRecipeError: the content is too large, or is not UTF-8.
        Exception: what `fail` makes.
    """
    try:
        if path.is_dir():
            inside = path / "recipe.yaml"
            remedy = f"name the file: {display}/recipe.yaml" if inside.is_file() else "name a YAML file in it"
            raise fail(f"'{display}' is a folder", remedy)
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise fail(f"'{display}' is not a regular file", "name a YAML file")
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise fail(f"the file '{display}' does not exist", absent) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not a file name"
        raise fail(f"'{shown(display)}' cannot be read: {why}", "check the path and its permissions") from None
    if len(data) > MAX_FILE_BYTES:
        reason = f"the file is larger than {MAX_FILE_BYTES >> 20} MiB"
        raise InvalidRecipeError([Problem(display, reason, "this is no recipe: check the path")], file=display)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = Problem(f"{display}:{line}:{column}", "the file is not UTF-8 text", "save it as UTF-8")
        raise InvalidRecipeError([problem], file=display) from None


def compose(text: str, display: str) -> yaml.Node:
    """The root node of one YAML document; the marks of all nodes carry `display` as their name.

    Raises:
        InvalidRecipeError: a syntax error, several documents, no content, or a limit exceeded.
    """
    place = f"{display}:1:1"
    try:
        loader = RecipeYaml(text)
        loader.name = display
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line, column = _line_and_column(text, error.position)
        problem = Problem(
            f"{display}:{line}:{column}",
            f"a control character ({_code(error.character)}) stands in the text",
            "remove it; in double quotes it can be written as an escape",
        )
    except _LimitError as error:
        problem = Problem(_at(display, error.mark), error.reason, "make the recipe smaller and flatter")
    except yaml.MarkedYAMLError as error:
        problem = _syntax_problem(error, text, display)
    except (ValueError, OverflowError):
        # PyYAML passes the number of a \U escape to chr() unchecked
        problem = Problem(_at(display, loader.get_mark()), "an escape names no character", "correct the \\U escape")
    except yaml.YAMLError:
        problem = Problem(place, "the file is not valid YAML", "check its syntax")
    else:
        if node is not None and not _is_empty(node):
            return node
        problem = Problem(place, "the file is empty", "write a recipe into it, beginning with `nnkit: 1`")
    raise InvalidRecipeError([problem], file=display)


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "" and node.tag == CORE_PREFIX + "null"


def _at(display: str, mark: yaml.Mark) -> str:
    return f"{display}:{mark.line + 1}:{mark.column + 1}"


def _code(character: Any) -> str:
    return f"U+{ord(character) if isinstance(character, str) else int(character):04X}"


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, display: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = _at(display, mark) if mark else display
    said = error.problem or error.context or "the YAML syntax is wrong"
    if mark and _before(text, mark).endswith("$"):
        return Problem(
            where,
            "a variable inside [ ] or { } must be quoted, because '{' begins a section there",
            'write "${NAME}"',
        )
    for theirs, ours, remedy in _PLAIN_WORDS:
        if theirs in said:
            return Problem(where, ours, remedy)
    return Problem(where, f"the YAML syntax is wrong: {shown(said, 120)}", "check this line and the one above")


def _before(text: str, mark: yaml.Mark) -> str:
    """The text of the marked line up to the mark."""
    lines = text.splitlines()
    return lines[mark.line][: mark.column] if mark.line < len(lines) else ""
