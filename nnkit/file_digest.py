"""What a cache key needs to know of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes; a file that cannot be read gives its name (the reader reports it)."""
    if not path.is_file():  # opening a pipe would wait for a writer
        return f"unreadable:{path.name}"
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return f"unreadable:{path.name}"
