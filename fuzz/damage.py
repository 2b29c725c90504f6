"""Ways to damage bytes, text and JSON; each change is drawn from a generator, so that a number gives it again."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

LARGEST_INPUT_BYTES = 1 << 20
NUMBERS = ("0", "-1", "1", "3", "0.5", "255", "2147483648", "-9223372036854775809", "1e308", "-1e999", "9" * 5000)
NUMBERS += ("nan", "inf", "0x7f", "1_0", "true", "null", "2001-13-01")
_TOKENS = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[A-Za-z_][\w.]*|-?\d[\d.eE+-]*|\s+|.", re.DOTALL)
_PIECES = (
    "[",
    "{",
    "(",
    "- ",
    "a: ",
    "&a ",
    "*a ",
    "<<: *a\n",
    "!!binary ",
    "!include x\n",
    "\x00",
    "\ufeff",
    "\u2028",
)
_PIECES += ('"\\UFFFFFFFF"', "\ud7ff", "? ", "--- ", "%TAG ! x\n", "|\n", "${HOME}", "${", "1,", "#")

_VALUES = (None, True, -1, 0, 1 << 70, 1e308, "", "x", [], {}, [[]], {"a": None}, "\ud800")


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """Flipped bits, other bytes, cuts, repeats, runs of one byte."""
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(7)
    if kind == 0 and data:
        at %= len(data)
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at + chance.randrange(9) :]
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + data[at + chance.randrange(1, 64) :]
    if kind == 4:
        return (data[:at] + data[at : at + chance.randrange(1, 256)] * chance.randrange(2, 500))[:LARGEST_INPUT_BYTES]
    if kind == 5:
        return data[:at] + chance.choice((b"\x7f", b"\xff", b"\x00", b"\x80")) * chance.randrange(1, 12) + data[at:]
    return chance.randbytes(chance.randrange(200)) + data[at:]


def damaged_text(text: str, chance: random.Random, others: Sequence[str] = ()) -> bytes:
    """Damage by token: other numbers and words, repeats, deletions, pieces of another text, and syntax where none
    belongs, a few thousand times at the worst."""
    tokens = _TOKENS.findall(text) or [""]
    for _ in range(chance.choice((1, 1, 2, 4))):
        kind, at = chance.randrange(9), chance.randrange(len(tokens))
        if kind == 0:
            numbers = [i for i, token in enumerate(tokens) if token[:1].isdigit() or token[:1] == "-"] or [at]
            tokens[chance.choice(numbers)] = chance.choice(NUMBERS)
        elif kind == 1:
            del tokens[at : at + chance.randrange(1, 6)]
            tokens = tokens or [""]
        elif kind == 2:
            tokens[at:at] = tokens[at : at + chance.randrange(1, 30)] * chance.randrange(1, 40)
        elif kind == 3:
            tokens[at] = chance.choice(tokens)
        elif kind == 4:
            tokens[at:at] = [chance.choice(_PIECES) * chance.choice((1, 1, 2, 50, 3000))]
        elif kind == 5 and others:
            pieces = _TOKENS.findall(chance.choice(others))
            start = chance.randrange(len(pieces) or 1)
            tokens[at:at] = pieces[start : start + chance.randrange(1, 60)]
        elif kind == 6:
            words = [i for i, token in enumerate(tokens) if token[:1].isalpha() or token[:1] in "\"'"] or [at]
            tokens[chance.choice(words)] = tokens[chance.choice(words)]
        elif kind == 7:
            tokens[at] = chance.choice(NUMBERS)
        else:
            return damaged_bytes("".join(tokens).encode("utf-8", "replace"), chance)[:LARGEST_INPUT_BYTES]
    return "".join(tokens).encode("utf-8", "replace")[:LARGEST_INPUT_BYTES]


def damaged_json(text: str, chance: random.Random) -> bytes:
    """A value somewhere in the document is removed, or replaced by a strange one or by another of the document; the
    result is JSON still."""
    document = json.loads(text)
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        holder = pending.pop()
        for key in _keys(holder):
            places.append((holder, key))
            pending.append(holder[key])
    for _ in range(chance.choice((1, 1, 3))):
        (holder, key), (other, other_key) = chance.choice(places), chance.choice(places)
        if key not in _keys(holder) or other_key not in _keys(other):
            continue  # it was removed a moment ago
        if chance.random() < 0.3:
            del holder[key]
        else:
            value = chance.choice((*_VALUES, other[other_key], document))
            holder[key] = json.loads(json.dumps(value))
    return json.dumps(document).encode()[:LARGEST_INPUT_BYTES]


def damaged_value(data: bytes, chance: random.Random) -> bytes:
    """A value as `nnkit.serialize` stores it, its structure damaged, or its arrays."""
    from nnkit.serialize import MAGIC

    start = len(MAGIC) + 8
    end = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if chance.random() < 0.2:
        return data[:end] + damaged_bytes(data[end:], chance)
    header = damaged_json(data[start:end].decode(), chance)
    return data[: len(MAGIC)] + len(header).to_bytes(8, "little") + header + data[end:]


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []
