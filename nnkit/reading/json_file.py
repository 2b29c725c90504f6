"""JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nnkit.errors import UserFileError
from nnkit.reading.text_file import read_text

MAX_JSON_BYTES = 1 << 28


def read_json(path: Path, *, what: str, remedy: str) -> Any:
    """The value in a JSON file.

    what: the file in messages, e.g. `the report`. remedy: of a file that is no JSON.

    Raises:
        UserFileError: it cannot be read, is too large, not UTF-8, not JSON, nested too deep, or has a number of
            thousands of digits.
    """
    text = read_text(path, what=what, remedy=remedy, limit_bytes=MAX_JSON_BYTES)
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        place = f"{path}:{error.lineno}:{error.colno}"
        raise UserFileError(f"{what} is not valid JSON: {error.msg}", where=place, remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnicodeEncodeError):
            why = "a text holds half a character, \\ud800 to \\udfff"
        else:
            why = "it is nested too deep" if isinstance(error, RecursionError) else "a number has too many digits"
        raise UserFileError(f"{what} is not valid JSON: {why}", where=str(path), remedy=remedy) from error


def read_json_object(path: Path, *, what: str, remedy: str) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused too. Arguments, raises: as `read_json`."""
    value = read_json(path, what=what, remedy=remedy)
    if not isinstance(value, dict):
        raise UserFileError(f"{what} is not a JSON object", where=str(path), remedy=remedy)
    return value
