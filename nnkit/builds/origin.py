"""Where a build is from, before its code is compiled and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nnkit.builds.folder import BuiltFolder
from nnkit.errors import InternalError, NnkitError, UserFileError
from nnkit.package.artifact_files import artifact_files, changed_files
from nnkit.reading import read_json_object
from nnkit.trust import made_here, refuse_foreign_code


def check_origin(build: BuiltFolder, *, trusted: bool) -> None:
    """Nothing where this user made the build and its artifact is as it was then.

    Raises UserFileError where a file of the artifact is not the one that the report lists, UsageError where the build
    was made elsewhere, or holds more files than it was made with, and is not trusted.
    """
    artifact = build.folder / "artifact"
    changed = changed_files(artifact, build.report)
    if changed:
        raise UserFileError(
            "is not the file that the build was verified with",
            where=str(artifact / changed[0]),
            remedy="build it again with `nnkit run`",
        )
    more = sorted(set(artifact_files(artifact)) - set(build.report.get("artifact") or {}))
    why = f"{artifact / more[0]} was added to it" if more else "it was not made by you on this machine"
    if more or not _is_own(build.folder):
        refuse_foreign_code(str(build.folder), why, trusted=trusted)


def _is_own(folder: Path) -> bool:
    path = folder / "run.json"
    if not path.is_file():
        return False
    run = read_json_object(path, what="run.json", remedy="build it again with `nnkit run`")
    return made_here(folder, run.get("made_here"))


@contextmanager
def computing_with(*folders: Path) -> Iterator[None]:
    """Around what computes with the programs of builds: what goes wrong in it is a fault of a build that was not made
    here or was changed since, and otherwise one of nnkit's.

    Raises UserFileError for the first build that is not known to be as nnkit wrote it.
    """
    try:
        yield
    except (NnkitError, MemoryError) as error:
        if isinstance(error, NnkitError) and not isinstance(error, InternalError):
            raise
        _blame(folders, error)
        raise
    except Exception as error:
        _blame(folders, error)
        raise


def _blame(folders: Sequence[Path], error: Exception) -> None:
    for folder in folders:
        if not _is_own(folder):
            raise UserFileError(
                f"this build cannot be computed with: {type(error).__name__}: {error}",
                where=str(folder),
                remedy="it was changed, or not made by you on this machine: build it again with `nnkit run`",
            ) from error
