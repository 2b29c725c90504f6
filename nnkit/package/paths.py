"""Which names a package may hold: those that mean the same relative file on every common file system.

Names are ASCII, with `/` between their parts. Refused are absolute names and drive letters, `.` and `..`,
backslashes, characters and device names that Windows reserves, parts that end in a dot or a blank, names that differ
only by case, and a name that is both a file and a folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection

MAX_NAME_LENGTH = 240
_PART = re.compile(r"[A-Za-z0-9 !#$%&'()+,\-.;=@\[\]^_`{}~]+")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)", re.IGNORECASE)


def why_refused(name: str) -> str | None:
    """Why `name` may not be a file of a package, in a few words; None where it may."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"has {len(name)} characters; {MAX_NAME_LENGTH} is the limit"
    if "\\" in name:
        return "holds a backslash"
    if name.startswith("/"):
        return "is absolute"
    for part in name.split("/"):
        reason = _why_part_refused(part)
        if reason:
            return reason
    return None


def why_refused_together(names: Collection[str]) -> str | None:
    """Why names that are good one by one may not be in one package: duplicates, case, a file that is a folder."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            known = folders.setdefault(folder.lower(), folder)
            if known != folder:
                return f"the folders {known!r} and {folder!r} differ only by case"
        known = files.setdefault(name.lower(), name)
        if known != name:
            return f"{known!r} and {name!r} differ only by case"
    if len(files) != len(names):
        return "a name appears twice"
    both = sorted(files.keys() & folders.keys())
    return f"{files[both[0]]!r} is both a file and a folder" if both else None


def _why_part_refused(part: str) -> str | None:
    if not part:
        return "has an empty part"
    if part in (".", ".."):
        return f"has a part {part!r}"
    if not _PART.fullmatch(part):
        bad = next(character for character in part if not _PART.fullmatch(character))
        return f"holds the character {bad!a}"
    if part[-1] in ". " or part[0] == " ":
        return f"has a part {part!r} that begins or ends with a blank, or ends with a dot"
    if _DEVICE.fullmatch(part.split(".")[0].rstrip(" ")):
        return f"has a part {part!r} that names a device on Windows"
    return None
