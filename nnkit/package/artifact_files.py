"""The files of a build's artifact, and whether they are those that its report was written with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.errors import UserFileError
from nnkit.package.archive import file_sha256


def artifact_files(folder: Path) -> dict[str, Path]:
    """All files below `folder` by their path in it. Raises UserFileError for anything but files and folders."""
    files: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(parent, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise UserFileError(
                    "is neither a file nor a folder", where=str(path), remedy="replace it with the file itself"
                )
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = path
    return files


def changed_files(folder: Path, report: Mapping[str, Any]) -> list[str]:
    """Names of files that a build's report lists, and that are missing below `folder` or have another SHA-256."""
    verified = report.get("artifact")
    files = artifact_files(folder)
    return [
        name
        for name, record in sorted(verified.items() if isinstance(verified, dict) else ())
        if name not in files or not is_as_recorded(files[name], record)
    ]


def is_as_recorded(path: Path, record: object) -> bool:
    """Whether a file has the SHA-256 of its record in a report."""
    return isinstance(record, dict) and file_sha256(path) == record.get("sha256")
