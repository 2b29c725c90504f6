"""Who asks: by token where the server has any, else each browser for itself, by a cookie that it is given.

A browser that has shown its token is given a cookie that stands for it for some days, and is not it: the moment of
its end, a random word, and their HMAC-SHA256 by the token. It is checked against each user's token; nothing is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from nnkit.errors import UserFileError, cannot_be_written
from nnkit.reading import read_text

COOKIE = "nnkit_session"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{24,200}")
_SESSION = re.compile(r"[A-Za-z0-9_-]{43}")
_LOGIN = re.compile(r"([0-9]{1,12})\.[A-Za-z0-9_-]{22}\.[0-9a-f]{64}")
_LOGIN_SECONDS = 7 * 24 * 3600
_IPV6_NETWORK_BITS = 64
"""What one sender has of IPv6 addresses, at the least."""


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


def new_login(token: str) -> str:
    """A cookie for a browser that has shown a token."""
    promised = f"{int(time.time()) + _LOGIN_SECONDS}.{secrets.token_urlsafe(16)}"
    return f"{promised}.{_signed(token, promised)}"


def user_of_login(tokens: Mapping[str, str], cookie: str) -> str | None:
    """The owner of jobs for such a cookie; None where it has ended, or its token is none any more."""
    match = _LOGIN.fullmatch(cookie)
    if match is None or int(match[1]) < time.time():
        return None
    promised, _, signature = cookie.rpartition(".")
    owner = None
    for token in tokens:
        if hmac.compare_digest(_signed(token, promised), signature):
            owner = user_of_token(tokens, token)
    return owner


def _signed(token: str, promised: str) -> str:
    return hmac.new(token.encode(), f"nnkit login {promised}".encode(), hashlib.sha256).hexdigest()


def user_of_session(cookie: str) -> str | None:
    """The owner of jobs for a browser's cookie; None where it is none of ours."""
    return _digest(f"session {cookie}") if _SESSION.fullmatch(cookie) else None


def address_of(host: str) -> str:
    """A digest of where a request comes from; of IPv6, of the network that one sender has whole."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _digest(f"address {host}")
    if isinstance(address, ipaddress.IPv6Address):
        near = address.ipv4_mapped or ipaddress.ip_network((int(address), _IPV6_NETWORK_BITS), strict=False)
        return _digest(f"address {near}")
    return _digest(f"address {address}")


def _digest(text: str) -> str:
    """What stands on disk: nobody who reads it can act as the user."""
    return hashlib.sha256(text.encode()).hexdigest()
