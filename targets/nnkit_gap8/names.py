"""Names of a network's things in C."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Keywords of C and C++, and names that the generated code uses.
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
    "xor", "xor_eq", "context", "l1", "l2", "port", "task", "main",
))
# fmt: on


def identifier(name: str) -> str:
    """A C identifier (lower case) that resembles `name`; never a keyword of C or C++ or a name the code uses."""
    text = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_") or "x"
    if text[0].isdigit():
        text = f"n{text}"
    return f"{text}_" if text in _KEYWORDS else text


def unique_identifiers(names: Iterable[str]) -> dict[str, str]:
    """An identifier for each name, all different."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        wish = candidate = identifier(name)
        number = 2
        while candidate in taken:
            candidate, number = f"{wish}_{number}", number + 1
        taken.add(candidate)
        result[name] = candidate
    return result


def comment_text(text: str) -> str:
    """`text` for the inside of a C comment: printable ASCII that neither ends nor opens a comment."""
    plain = "".join(c if " " <= c <= "~" and c != "\\" else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *")
