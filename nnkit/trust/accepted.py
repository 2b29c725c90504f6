"""The newest release of each name that this user has accepted, so that an older one in its place is noticed.

`accepted.json` in the configuration folder, for its owner alone. Releases that a trusted key signed and others are
kept apart: what nobody vouches for must not make a signed release look old.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from nnkit.trust.private_folder import make_private, new_private_file, why_not_private
from nnkit.trust.settings import config_folder

_FILE = "accepted.json"
_MAX_BYTES = 1 << 24
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")


@dataclass(frozen=True)
class Release:
    """A release of a target. signer: id of the trusted key that signed it; empty without one."""

    name: str
    target: str
    version: str
    signer: str

    @property
    def _key(self) -> str:
        return f"{self.name} {self.target} {self.signer}".rstrip()


def newer_accepted(release: Release) -> str | None:
    """The version of a newer release of this name and target that was accepted before; None where there is none.

    A signed release is compared with those that the same key signed, any other with all.
    """
    own = _order(release.version)
    if own is None:
        return None
    whose = f"{release.name} {release.target}"
    known = [
        version
        for key, version in _read().items()
        if key == release._key or (not release.signer and (key == whose or key.startswith(f"{whose} ")))
    ]
    newer = [(order, version) for version in known if (order := _order(version)) is not None and order > own]
    return max(newer)[1] if newer else None


def accept(release: Release) -> None:
    """Keep the release as the newest one, unless a newer one is known. Where nothing can be written, nothing is."""
    own = _order(release.version)
    folder = config_folder()
    if own is None or make_private(folder) is not None:
        return
    known = dict(_read())
    before = _order(known.get(release._key, ""))
    if before is not None and before >= own:
        return
    content = json.dumps({**known, release._key: release.version}, indent=2, sort_keys=True) + "\n"
    with suppress(OSError), new_private_file(folder / _FILE, content.encode("ascii")) as made:
        made.replace(folder / _FILE)


def _read() -> Mapping[str, str]:
    """Version by name, target and signer; empty where the file is not there, damaged, or others may write it."""
    path = config_folder() / _FILE
    if why_not_private(path) is not None or not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {key: version for key, version in content.items() if isinstance(version, str)}


def _order(version: str) -> tuple[object, ...] | None:
    """By what semantic versioning (semver.org, 11) compares; None for what is no such version."""
    matched = _VERSION.fullmatch(version)
    if matched is None:
        return None
    numbers = tuple(int(number) for number in matched.groups()[:3])
    if matched[4] is None:
        return (*numbers, 1)
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in matched[4].split(".")]
    return (*numbers, 0, *parts)
