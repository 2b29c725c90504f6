"""Builds that this user made: a mark that nobody else can write.

The mark is an HMAC-SHA256 over the build's report and recipe, with a key that lies in the configuration folder and
that only its owner may read. The report in turn holds the SHA-256 of every file that is compiled.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from nnkit.trust.private_folder import make_private, new_private_file, why_not_private
from nnkit.trust.settings import config_folder

_KEY_FILE = "own_builds.key"
_KEY_BYTES = 32
_MARKED = ("report.json", "recipe.yaml")


def mark_of_report(folder: Path) -> str | None:
    """The mark of the build in `folder` by this user's key, which is made where there is none; None without a key."""
    key = _key(make=True)
    return None if key is None else _mark(key, folder)


def made_here(folder: Path, mark: object) -> bool:
    """Whether this user's key gave that mark to the build in `folder`, as it is now."""
    key = _key(make=False)
    if key is None or not isinstance(mark, str):
        return False
    expected = _mark(key, folder)
    return expected is not None and hmac.compare_digest(expected.encode(), mark.encode(errors="replace"))


def _mark(key: bytes, folder: Path) -> str | None:
    state = hmac.new(key, digestmod=hashlib.sha256)
    for name in _MARKED:
        try:
            state.update(hashlib.sha256((folder / name).read_bytes()).digest())
        except OSError:
            return None
    return state.hexdigest()


def _key(*, make: bool) -> bytes | None:
    """This user's key; None where there is none, or others may write it."""
    folder = config_folder()
    path = folder / _KEY_FILE
    if make and not path.exists():
        _make_key(folder, path)
    if why_not_private(path) is not None or path.is_symlink():
        return None
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def _make_key(folder: Path, path: Path) -> None:
    """Made under a name of its own and linked to its place: of runs side by side the first one's stays."""
    if make_private(folder) is not None:
        return
    with suppress(OSError), new_private_file(path, secrets.token_bytes(_KEY_BYTES)) as made:
        os.link(made, path)
