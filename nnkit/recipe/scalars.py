"""What a plain (unquoted) YAML scalar means: the core schema of YAML 1.2, section 10.3.2.

PyYAML speaks YAML 1.1, where `no` is false, `1e-3` is text and `1:30` is ninety. Recipes follow 1.2.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_MAX_DIGITS = 400
"""Longer than any finite double: what is longer cannot be meant, and Python refuses to read 4,300 digits."""


def tag_of(text: str) -> str:
    """The short name of the core schema's tag for a plain scalar: `null`, `bool`, `int`, `float` or `str`."""
    if text in _NULL:
        return "null"
    if text in _TRUE or text in _FALSE:
        return "bool"
    if _INT.fullmatch(text):
        return "int"
    if _FLOAT.fullmatch(text) or _INFINITY.fullmatch(text) or text in _NAN:
        return "float"
    return "str"


def value_of(text: str, tag: str) -> Scalar:
    """The value of a scalar under a core schema tag.

    Raises:
        ValueError: `text` is no such value, or too large for it; the message completes "'1e999' is ...".
    """
    if tag == "str":
        return text
    kind = tag_of(text)
    if tag == "float" and kind == "int":
        kind = "float"
    if kind != tag:
        raise ValueError(f"not a value of type {tag}")
    if tag == "null":
        return None
    if tag == "bool":
        return text in _TRUE
    if len(text) > _MAX_DIGITS:
        raise ValueError("too long for a number")
    if tag == "int":
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return _float(text)


def _float(text: str) -> float:
    if text in _NAN:
        return math.nan
    if _INFINITY.fullmatch(text):
        return -math.inf if text.startswith("-") else math.inf
    number = float(int(text, 0)) if text[:2] in ("0o", "0x") else float(text)
    if math.isinf(number):
        raise ValueError("too large for a number")
    return number


def resolve(text: str) -> Scalar:
    """The value of a plain scalar; text that is no finite number stays text."""
    try:
        return value_of(text, tag_of(text))
    except ValueError:
        return text
