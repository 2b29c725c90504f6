"""YAML tables and data; recipes, which have variables and includes, are read by `nnkit.recipe`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from nnkit.errors import UserFileError
from nnkit.reading.text_file import read_text

MAX_YAML_BYTES = 1 << 26


class _PlainLoader(yaml.SafeLoader):
    """Plain data without aliases, of which a few lines can stand for billions of values."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="an alias stands for another value", problem_mark=self.get_mark())
        return super().compose_node(parent, index)


def read_yaml_node(path: Path, *, what: str, remedy: str, limit_bytes: int = MAX_YAML_BYTES) -> yaml.Node | None:
    """The root node of the one document in a file, with the places of all nodes; None where there is none.

    what: the file in messages, e.g. `the table`. remedy: of a file that is no such YAML.

    Raises:
        UserFileError: it cannot be read, is too large, not UTF-8, not YAML, has aliases, or is nested too deep.
    """
    text = read_text(path, what=what, remedy=remedy, limit_bytes=limit_bytes)
    return _node_of(text, what=what, where=str(path), remedy=remedy)


def read_yaml(path: Path, *, what: str, remedy: str) -> Any:
    """The value of the one document in a file: plain data. Arguments, raises: as `read_yaml_node`."""
    node = read_yaml_node(path, what=what, remedy=remedy)
    return _value_of(node, what=what, where=str(path), remedy=remedy)


def parse_yaml(text: str, *, what: str, where: str, remedy: str) -> Any:
    """The value of the one document in a text, as `read_yaml`; a key that stands twice in a mapping is refused too.

    where: what the text is from.
    """
    if len(text) > MAX_YAML_BYTES:
        raise UserFileError(f"{what} is too large", where=where, remedy=remedy)
    node = _node_of(text, what=what, where=where, remedy=remedy)
    twice = None if node is None else _key_that_stands_twice(node)
    if twice is not None:
        place = f"{where}:{twice.start_mark.line + 1}:{twice.start_mark.column + 1}"
        raise UserFileError(f"{what} has a key twice in one mapping", where=place, remedy=remedy)
    return _value_of(node, what=what, where=where, remedy=remedy)


def _node_of(text: str, *, what: str, where: str, remedy: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = _PlainLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        reason = error.problem or error.context or "its syntax is wrong"
        raise UserFileError(f"{what} is not plain YAML: {reason}", where=place, remedy=remedy) from error
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        # ReaderError: a control character; the last two: PyYAML gives the number of a \U escape to chr() unchecked
        if isinstance(error, RecursionError):
            why = "it is nested too deep"
        else:
            why = "a character is not allowed"
        raise UserFileError(f"{what} is not plain YAML: {why}", where=where, remedy=remedy) from error
    return node


def _key_that_stands_twice(root: yaml.Node) -> yaml.Node | None:
    nodes: list[yaml.Node] = [root]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif isinstance(node, yaml.MappingNode):
            seen: set[tuple[str, str]] = set()
            pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
            for key, value in pairs:
                if (key.tag, str(key.value)) in seen:
                    return key
                seen.add((key.tag, str(key.value)))
                nodes += (key, value)
    return None


def _value_of(node: yaml.Node | None, *, what: str, where: str, remedy: str) -> Any:
    try:
        return None if node is None else yaml.SafeLoader("").construct_document(node)
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        # a date of month 13, a number of thousands of digits, a list as a key: its constructors check nothing
        raise UserFileError(f"{what} holds a value that cannot be read", where=where, remedy=remedy) from error
