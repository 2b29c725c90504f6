"""Names, comments and numbers as C text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import numpy as np

# Keywords of C and C++, and names of the standard library.
# fmt: off
_KEYWORDS = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "class", "compl", "const", "constexpr", "const_cast", "continue", "decltype", "default", "delete",
    "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not",
    "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
    "reinterpret_cast", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert",
    "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
    "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while",
    "xor", "xor_eq", "main",
    # what <stdlib.h>, <string.h>, <math.h> and <stdio.h> declare, as far as layers may be called so
    "abort", "abs", "bsearch", "ceil", "cos", "cosh", "div", "div_t", "erf", "exit", "exp", "fabs", "floor", "fmax",
    "fmin", "fmod", "free", "frexp", "index", "labs", "ldexp", "ldiv", "log", "log10", "log2", "malloc", "memcpy",
    "memset", "modf", "pow", "printf", "puts", "qsort", "rand", "realloc", "remainder", "remove", "rename", "rint",
    "round", "scalbn", "signal", "sin", "sinh", "sqrt", "srand", "stderr", "stdin", "stdout", "strcmp", "system",
    "tan", "tanh", "time", "trunc",
))
# fmt: on


def identifier(name: str, reserved: Collection[str] = ()) -> str:
    """A C identifier (lower case) that resembles `name`: no keyword of C or C++, no name of C's library, none of
    `reserved`."""
    text = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_") or "x"
    if text[0].isdigit():
        text = f"n{text}"
    return f"{text}_" if text in _KEYWORDS or text in reserved else text


def unique_identifiers(names: Iterable[str], reserved: Collection[str] = ()) -> dict[str, str]:
    """An identifier for each name, all different."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        wish = candidate = identifier(name, reserved)
        number = 2
        while candidate in taken:
            candidate, number = f"{wish}_{number}", number + 1
        taken.add(candidate)
        result[name] = candidate
    return result


def comment_text(text: object) -> str:
    """`text` for the inside of a C comment: printable ASCII that neither ends nor opens a comment."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in str(text))
    # ??/ is a backslash in C99, and with a line's end behind it the next line belongs to the comment.
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??/", "? ?/")


def int32_literal(value: int) -> str:
    """A literal of a type of 32 bits: -2147483648 has none of its own."""
    return "(-2147483647 - 1)" if value == -(1 << 31) else str(value)


def float32_literal(value: float) -> str:
    """A float32 as a C constant that reads back to the same bits; NAN and INFINITY are those of <math.h>."""
    single = np.float32(value)
    if np.isnan(single):
        return "NAN"
    if np.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    text = str(single)
    return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"


def braces(values: Iterable[int]) -> str:
    """The initialiser of an array of integers: `{1, 2, 3}`."""
    return "{" + ", ".join(str(int(value)) for value in values) + "}"


def integer_type(bits: int, signed: bool) -> str:
    """The type of nnkit_types.h that has exactly this width."""
    return f"nnkit_{'i' if signed else 'u'}{bits}"
