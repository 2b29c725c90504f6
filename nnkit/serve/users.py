"""Who asks: by token where the server has any, else each browser for itself, by a cookie that it is given."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from nnkit.errors import UserFileError, cannot_be_written
from nnkit.reading import read_text

COOKIE = "nnkit_session"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{24,200}")
_SESSION = re.compile(r"[A-Za-z0-9_-]{43}")


def read_tokens(path: Path) -> dict[str, str]:
    """Names of users by token: lines `NAME TOKEN`. A file that is not there is made, with one token.

    Raises UserFileError for a file that others may read, that cannot be made, or whose lines are no tokens.
    """
    if not path.exists():
        _make(path)
    if hasattr(os, "getuid") and path.stat().st_mode & 0o077:
        raise UserFileError("others may read the tokens", where=str(path), remedy=f"chmod 600 {path}")
    tokens: dict[str, str] = {}
    text = read_text(path, what="the file of tokens", remedy="remove it, and one is made")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if len(words) != 2 or not _TOKEN.fullmatch(words[1]):
            raise UserFileError(
                "not a name and a token of 24 characters or more (letters, digits, `-`, `_`)",
                where=f"{path}:{number}",
                remedy="make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )
        tokens[words[1]] = words[0]
    if not tokens:
        raise UserFileError("holds no tokens", where=str(path), remedy="remove it, and one is made")
    return tokens


def _make(path: Path) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"user {secrets.token_urlsafe(32)}\n")
    except OSError as error:
        raise cannot_be_written(path, error, "the file of tokens") from error


def new_session() -> str:
    """A cookie for a browser that has none."""
    return secrets.token_urlsafe(32)


def user_of_token(tokens: Mapping[str, str], given: str) -> str | None:
    """The owner of jobs for a token; None for one that is not known. In constant time."""
    owner = None
    for token, name in tokens.items():
        if hmac.compare_digest(token.encode(), given.encode()):
            owner = _digest(f"token {name}")
    return owner


def user_of_session(cookie: str) -> str | None:
    """The owner of jobs for a browser's cookie; None where it is none of ours."""
    return _digest(f"session {cookie}") if _SESSION.fullmatch(cookie) else None


def _digest(text: str) -> str:
    """What stands on disk: nobody who reads it can act as the user."""
    return hashlib.sha256(text.encode()).hexdigest()
