"""The prototxt: protobuf's text format, read with positions.

protobuf's own reader either refuses unknown fields or drops them in silence, and forgets where things stood. Users
need both: networks in circulation carry fields of other forks, and an error names a line. So this one fills the
messages itself, notes every field it does not know, and remembers the line of every layer. It works in one pass and
in time and memory that grow with the file's size alone.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, NoReturn

from nnkit.errors import ModelError

MAX_NESTING = 32
"""Deepest nesting of messages; real networks have four."""

# Repetitions keep no places to come back to (`++`, `*+`): those of a text of 20 MB take 4.5 GiB.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]++|\#[^\n]*+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[fF]?)(?![A-Za-z0-9_.]))
    |(?P<text>"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"|'[^'\\\n]*+(?:\\[^\n][^'\\\n]*+)*+')
    |(?P<symbol>[-{}<>\[\]:,;])""",
    re.VERBOSE,
)
_CLOSING = {"{": "}", "<": ">"}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_TRUTHS = {"true": True, "t": True, "True": True, "1": True, "false": False, "f": False, "False": False, "0": False}
_LONGEST_NUMBER = 64
_FLOAT32_MAX = 3.4028234663852886e38


@dataclass(frozen=True)
class UnknownField:
    """A field that the schema does not have: its name with the fields around it, and its place."""

    path: str
    line: int
    column: int


@dataclass(frozen=True)
class Parsed:
    """What a text held beside the message.

    lines: of each element of the top level's repeated messages, by field name, in order.
    """

    unknown: tuple[UnknownField, ...]
    lines: dict[str, list[int]]


def parse_text(data: bytes, message: Any, where: str) -> Parsed:
    """Fill `message` with the text in `data`.

    Comments may be in any encoding (GBK is common); names must be UTF-8.

    Raises:
        ModelError: a syntax error, or a value that the field cannot take, as `where:line:column`.
    """
    text = data.decode("utf-8-sig", errors="replace")
    parser = _Parser(text, where)
    parser.fields(message, "", path=(), depth=0)
    return Parsed(tuple(parser.unknown), parser.lines)


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.position = 0
        self.unknown: list[UnknownField] = []
        self.lines: dict[str, list[int]] = {}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.kind = self.token = ""
        self.start = 0
        self.next()

    # --- tokens

    def next(self) -> str:
        """Step to the next token, which is then in `kind`, `token` and `start`; returns the one left behind."""
        left = self.token
        while True:
            self.start = self.position
            if self.position >= len(self.text):
                self.kind, self.token = "end", ""
                return left
            match = _TOKEN.match(self.text, self.position)
            if match is None:
                self._no_token()
            self.position = match.end()
            if match.lastgroup != "space":
                self.kind, self.token = str(match.lastgroup), match.group()
                return left

    def _no_token(self) -> NoReturn:
        character = self.text[self.position]
        if character in "\"'":
            self.fail("the text in quotes does not end on this line", "close the quotes")
        if character.isdigit() or character == ".":
            shown = self.text[self.position : self.position + 20].split()[0]
            self.fail(f"'{shown}' is not a number", "write the number in digits")
        self.fail(f"the character {character!a} has no meaning here", "check for stray or binary characters")

    def place(self, start: int) -> tuple[int, int]:
        """Line and column, from 1, of a position in the text."""
        line = bisect_right(self._starts, start)
        return line, start - self._starts[line - 1] + 1

    def fail(self, reason: str, remedy: str, start: int | None = None) -> NoReturn:
        line, column = self.place(self.start if start is None else start)
        raise ModelError(reason, where=f"{self.where}:{line}:{column}", remedy=remedy)

    def _shown(self) -> str:
        token = self.token if len(self.token) <= 40 else self.token[:40] + "..."
        return "the file ends" if self.kind == "end" else f"'{token}' stands"

    # --- messages

    def fields(self, message: Any, closing: str, path: tuple[str, ...], depth: int, opened: int = 0) -> None:
        """The fields of a message up to its closing bracket, which opened at `opened`; `message` None skips them."""
        if depth > MAX_NESTING:
            self.fail(f"messages are nested more than {MAX_NESTING} deep", "check the brackets")
        while self.token != closing or self.kind not in ("symbol", "end"):
            if self.kind == "end":
                line, _ = self.place(opened)
                self.fail(f"the bracket that opens on line {line} is not closed", f"add '{closing}'")
            if self.kind == "symbol" and self.token in "}>":
                self.fail(f"'{self.token}' closes nothing that is open", "check the brackets")
            self._field(message, path, depth)
            if self.kind == "symbol" and self.token in ",;":
                self.next()

    def _field(self, message: Any, path: tuple[str, ...], depth: int) -> None:
        if self.kind != "name":
            self.fail(
                f"a field's name is expected, but {self._shown()} here", "write `name: value` or `name { ... }`"
            )
        start, name = self.start, self.next()
        colon = self.token == ":" and self.kind == "symbol"
        if colon:
            self.next()
        field = None if message is None else message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            if message is not None:
                self.unknown.append(UnknownField(".".join((*path, name)), *self.place(start)))
            self._skip_value(colon, depth)
        elif field.message_type is not None:
            self._messages(message, field, name, start, path, depth)
        else:
            if not colon:
                self.fail(f"':' is expected after '{name}', but {self._shown()} here", f"write `{name}: value`")
            self._scalars(message, field, name, start)

    def _messages(self, message: Any, field: Any, name: str, start: int, path: tuple[str, ...], depth: int) -> None:
        """One message, or a list of them in square brackets."""
        in_list = self.token == "[" and _repeated(field)
        if in_list:
            self.next()
        while not (in_list and self.token == "]"):
            if self.kind != "symbol" or self.token not in _CLOSING:
                self.fail(f"'{name}' holds fields, but {self._shown()} here", f"write `{name} {{ ... }}`")
            if depth == 0:
                self.lines.setdefault(name, []).append(self.place(start)[0])
            opened, closing = self.start, _CLOSING[self.next()]
            inner = self._inner(message, field, name, start)
            self.fields(inner, closing, (*path, name), depth + 1, opened)
            self.next()
            if not in_list:
                return
            if self.token == ",":
                self.next()
        self.next()

    def _inner(self, message: Any, field: Any, name: str, start: int) -> Any:
        """The message to fill; None where its contents are skipped."""
        training = field.message_type.name == "TrainingOnly"
        if _repeated(field):
            added = getattr(message, name).add()
            return None if training else added
        if message.HasField(name):
            self.fail(f"'{name}' is given twice", "keep one of the two", start)
        inner = getattr(message, name)
        inner.SetInParent()
        return None if training else inner

    def _scalars(self, message: Any, field: Any, name: str, start: int) -> None:
        if not _repeated(field):
            if message.HasField(name):
                self.fail(f"'{name}' is given twice", "keep one of the two", start)
            setattr(message, name, self._scalar(field, name))
            return
        values = getattr(message, name)
        if self.token != "[":
            values.append(self._scalar(field, name))
            return
        self.next()
        while self.token != "]":
            values.append(self._scalar(field, name))
            if self.token == ",":
                self.next()
            elif self.token != "]":
                self.fail(f"',' or ']' is expected, but {self._shown()} here", "separate the values with commas")
        self.next()

    # --- values

    def _scalar(self, field: Any, name: str) -> Any:
        start = self.start
        if field.type == field.TYPE_STRING:
            return self._text(name)
        negative = self.kind == "symbol" and self.token == "-"
        if negative:
            self.next()
        kind, token = self.kind, self.token
        if kind not in ("name", "number"):
            self.fail(f"a value for '{name}' is expected, but {self._shown()} here", f"write `{name}: value`")
        if len(token) > _LONGEST_NUMBER:
            self.fail(f"the value of '{name}' is {len(token)} characters long", "check the value", start)
        self.next()
        if field.type == field.TYPE_BOOL:
            if negative or token not in _TRUTHS:
                self.fail(f"'{name}' is {'-' * negative}{token}", "write true or false", start)
            return _TRUTHS[token]
        if field.type == field.TYPE_ENUM:
            return self._enum(field, name, token, negative, start)
        if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
            return self._float(name, kind, token, negative, start)
        return self._integer(field, name, token, negative, start)

    def _text(self, name: str) -> str:
        if self.kind != "text":
            self.fail(f"'{name}' is a text, but {self._shown()} here", f'write `{name}: "..."`')
        parts = []
        while self.kind == "text":
            body = self.token[1:-1]
            if "�" in body:
                self.fail(f"the text of '{name}' is not UTF-8", "save the file as UTF-8")
            parts.append(_ESCAPE.sub(_unescape, body) if "\\" in body else body)
            self.next()
        return "".join(parts)

    def _enum(self, field: Any, name: str, token: str, negative: bool, start: int) -> int:
        values = field.enum_type.values_by_name
        if not negative and token in values:
            return int(values[token].number)
        if not negative and token.isdigit() and int(token) in field.enum_type.values_by_number:
            return int(token)
        known = list(values)
        shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        self.fail(f"'{name}' cannot be {'-' * negative}{token}", f"write one of {shown}", start)

    def _float(self, name: str, kind: str, token: str, negative: bool, start: int) -> float:
        try:
            value = float(int(token, 16)) if token[:2] in ("0x", "0X") else float(token.rstrip("fF"))
        except ValueError:
            value = math.nan
        if kind != "number" or not abs(value) <= _FLOAT32_MAX:
            self.fail(f"'{name}' is {'-' * negative}{token}, which is no finite number", "write a number", start)
        return -value if negative else value

    def _integer(self, field: Any, name: str, token: str, negative: bool, start: int) -> int:
        low, high = _integer_range(field)
        try:
            octal = len(token) > 1 and token[0] == "0" and token.isdigit()
            value = int(token, 8) if octal else int(token, 16 if token[:2] in ("0x", "0X") else 10)
        except ValueError:
            self.fail(f"'{name}' is {'-' * negative}{token}, which is no integer", "write an integer", start)
        value = -value if negative else value
        if not low <= value <= high:
            self.fail(f"'{name}' is {value}, outside {low} to {high}", "check the value", start)
        return value

    # --- what is not in the schema

    def _skip_value(self, colon: bool, depth: int) -> None:
        if self.kind == "symbol" and self.token in _CLOSING:
            opened, closing = self.start, _CLOSING[self.next()]
            self.fields(None, closing, (), depth + 1, opened)
            self.next()
        elif self.token == "[" and self.kind == "symbol":
            if depth > MAX_NESTING:
                self.fail(f"lists are nested more than {MAX_NESTING} deep", "check the brackets")
            self.next()
            while self.token != "]" or self.kind != "symbol":
                self._skip_value(True, depth + 1)
                if self.token == ",":
                    self.next()
            self.next()
        elif not colon:
            self.fail(f"':' or '{{' is expected, but {self._shown()} here", "write `name: value` or `name { ... }`")
        elif self.kind == "text":
            while self.kind == "text":
                self.next()
        else:
            if self.kind == "symbol" and self.token == "-":
                self.next()
            if self.kind not in ("name", "number"):
                self.fail(f"a value is expected, but {self._shown()} here", "write `name: value`")
            self.next()


def _repeated(field: Any) -> bool:
    """`label` is deprecated in new releases of protobuf, and `is_repeated` is missing in old ones."""
    flag = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED) if flag is None else bool(flag)


def _integer_range(field: Any) -> tuple[int, int]:
    if field.type == field.TYPE_UINT32:
        return 0, 2**32 - 1
    bits = 63 if field.type == field.TYPE_INT64 else 31
    return -(2**bits), 2**bits - 1


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ESCAPED.get(code, code)
