"""What to write in the place of a glob that matches no file, as the folder that it names says."""

from __future__ import annotations

import glob
import os
from collections import Counter
from itertools import islice
from pathlib import Path

_MOST_LOOKED_AT = 10_000  # names in a folder


def mended_glob(pattern: str, folder: Path) -> str:
    """The remedy for a glob, relative to `folder`, that matches no file.

    A folder in the place of its files, and a suffix that none of them has, are answered with a glob that matches.
    """
    whole = folder / pattern
    looked_for = f"check the path; it was looked for at {whole}"
    head, tail = (pattern.rstrip("/"), "") if whole.is_dir() else os.path.split(pattern)
    matches_folders = not whole.is_dir() and any(glob.iglob(pattern, root_dir=folder))
    if matches_folders or glob.has_magic(head) or not (whole.is_dir() or glob.has_magic(tail)):
        return looked_for
    try:
        with os.scandir(folder / head) as entries:
            suffixes = Counter(Path(each.name).suffix for each in islice(entries, _MOST_LOOKED_AT) if each.is_file())
    except OSError:
        return looked_for
    suffixes.pop("", None)
    if not suffixes:
        return looked_for
    ((suffix, count),) = suffixes.most_common(1)
    what = "a file like it is" if count == 1 else f"{count} such files are"
    return f"write {os.path.join(head, '*')}{suffix}: {what} there; it was looked for at {whole}"
