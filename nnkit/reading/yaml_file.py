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
    try:
        node: yaml.Node | None = _PlainLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        reason = error.problem or error.context or "its syntax is wrong"
        raise UserFileError(f"{what} is not plain YAML: {reason}", where=place, remedy=remedy) from error
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        # ReaderError: a control character; the last two: PyYAML gives the number of a \U escape to chr() unchecked
        if isinstance(error, RecursionError):
            why = "it is nested too deep"
        else:
            why = "a character is not allowed"
        raise UserFileError(f"{what} is not plain YAML: {why}", where=str(path), remedy=remedy) from error
    return node


def read_yaml(path: Path, *, what: str, remedy: str) -> Any:
    """The value of the one document in a file: plain data. Arguments, raises: as `read_yaml_node`."""
    node = read_yaml_node(path, what=what, remedy=remedy)
    try:
        return None if node is None else yaml.SafeLoader("").construct_document(node)
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        # a date of month 13, a number of thousands of digits, a list as a key: its constructors check nothing
        raise UserFileError(f"{what} holds a value that cannot be read", where=str(path), remedy=remedy) from error
