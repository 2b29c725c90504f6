"""Value types of recipes: sizes in bytes, paths that know where they were written, names, lists of globs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from nnkit.errors import RecipeError
from nnkit.reading.matching_files import matching, mended_glob
from nnkit.reading.regular_file import is_broken_link, is_file_or_broken_link
from nnkit.recipe.base import fault
from nnkit.recipe.variables import escape

_BYTE_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_BYTE_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z]*)")
_BYTE_FORMS = "write bytes (524288), or a number with KiB, MiB or GiB (512KiB, 1.5MiB)"


def parse_byte_size(value: Any) -> int:
    """Bytes from a whole number, or from text such as `512KiB` or `1.5MiB`.

    Raises:
        PydanticCustomError: another form or unit, a negative number, or a broken number of bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise fault(f"a size cannot be negative, but {value} was given", _BYTE_FORMS)
        return value
    match = _BYTE_SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise fault(f"{_quoted(value)} is not a size in bytes", _BYTE_FORMS)
    number, unit = match.groups()
    if unit not in _BYTE_UNITS:
        if unit.lower() in ("k", "kb", "m", "mb", "g", "gb", "kib", "mib", "gib"):
            right = f"{unit[0].upper()}iB"
            raise fault(f"the unit '{unit}' is not used here", f"write {number}{right}; {_BYTE_FORMS}")
        raise fault(f"'{unit}' is not a unit of size", _BYTE_FORMS)
    size = Fraction(number) * _BYTE_UNITS[unit]
    if size.denominator != 1:
        raise fault(f"'{value}' is not a whole number of bytes", _BYTE_FORMS)
    return int(size)


ByteSize = Annotated[
    int,
    BeforeValidator(parse_byte_size),
    WithJsonSchema(
        {
            "title": "size",
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)? ?(B|KiB|MiB|GiB)?\s*$"},
            ],
        }
    ),
]
"""A size in bytes; in recipes `524288`, `512KiB`, `1.5MiB`."""


def _quoted(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class RecipePath:
    """A path or glob of a recipe.

    Attributes:
        text: the path with its variables expanded.
        written: what reads back as the same path in a recipe in the recipe's folder: as the user wrote it,
            with `${VAR}` unexpanded; for fragments from other folders, with the way to that folder before it.
        folder: the folder on this machine that a relative `text` is relative to.
        where: `file:line:column` of the recipe, for messages; empty for a path made in code.

    Two paths are equal when they are written alike; the machine does not matter.
    """

    text: str = field(compare=False)
    written: str
    folder: Path = field(default=Path(), compare=False, repr=False)
    where: str = field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> RecipePath:
        """A path that was not written in a recipe: relative to the working folder."""
        text = os.fspath(path)
        return cls(text=text, written=escape(text))

    @property
    def file(self) -> Path:
        """The path on this machine, without `..` that undo a folder; with them where a link leads elsewhere."""
        whole = self.folder / self.text
        if ".." not in whole.parts:
            return whole
        plain = os.path.normpath(whole)
        return Path(plain) if os.path.realpath(plain) == os.path.realpath(whole) else whole

    def __fspath__(self) -> str:
        return os.fspath(self.file)

    def __str__(self) -> str:
        return self.text

    def existing_file(self, what: str = "the file") -> Path:
        """The file, which must exist.

        Args:
            what: its role, to begin a message with: "the model".

        Raises:
            RecipeError: there is no such file; the place is the recipe's line.
        """
        if self.file.is_file():
            return self.file
        if self.file.is_dir():
            why, remedy = "is a folder", "name the file itself"
        elif is_broken_link(self.file):
            why, remedy = "is a link that leads to no file", f"name the file itself, or make {self.file} lead to it"
        else:
            why, remedy = "does not exist", f"check the path; it was looked for at {self.file}"
        raise RecipeError(f"{what} '{self.text}' {why}", where=self.where, remedy=remedy)

    def matches(self) -> list[Path]:
        """The files that the glob matches (`**` crosses folders), sorted by name; never empty.

        A link that leads nowhere is one of them: whoever opens it says so, instead of passing over it.

        Raises:
            RecipeError: the glob matches no file; the place is the recipe's line.
        """
        if self.file.is_file():  # a plain path, also one with glob characters in its name
            return [self.file]
        names = matching(self.text, self.folder, where=self.where)
        files = [path for path in (self.folder / name for name in names) if is_file_or_broken_link(path)]
        if not files:
            raise RecipeError(
                f"'{self.text}' matches no file",
                where=self.where,
                remedy=mended_glob(self.text, self.folder),
            )
        return files

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from_text = core_schema.no_info_after_validator_function(cls._from_text, core_schema.str_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), from_text]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda path: path.written, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "title": "path", "minLength": 1}

    @classmethod
    def _from_text(cls, text: str) -> RecipePath:
        if not text.strip():
            raise fault("a path is empty", "name a file")
        if "\0" in text:
            raise fault("a path holds a NUL character", "name a file")
        if "://" in text:
            raise fault(f"'{text}' is a URL; nothing is downloaded", "fetch the file and give its path")
        return cls.of(text)


class OneOrMany:
    """Annotation for `tuple[T, ...]`: a recipe may give one T instead of a list; in memory it is a tuple.

    A union and no `before` validator: pydantic's strict JSON mode takes a list for a tuple only as long as no
    validator has seen the data.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        many = handler(source)
        if many["type"] != "tuple":
            raise TypeError("OneOrMany is for tuple[T, ...]")
        one = core_schema.no_info_after_validator_function(lambda value: (value,), many["items_schema"][0])
        return core_schema.tagged_union_schema(
            {"one": one, "many": many},
            lambda value: "many" if isinstance(value, list | tuple) else "one",
            serialization=core_schema.plain_serializer_function_ser_schema(
                list, return_schema=core_schema.list_schema(many["items_schema"][0]), when_used="json"
            ),
        )


PathGlobs = Annotated[tuple[RecipePath, ...], Field(min_length=1, max_length=10_000), OneOrMany()]
"""One path or glob, or a list of them; always a tuple in memory."""


def _check_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value) or value.endswith("."):
        raise fault(
            f"'{value}' cannot name a folder on every system",
            "use up to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return value


FileName = Annotated[
    str,
    Field(json_schema_extra={"pattern": r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"}),
    BeforeValidator(lambda value: _check_name(value) if isinstance(value, str) else value),
]
"""A name that is a safe file and folder name everywhere."""
