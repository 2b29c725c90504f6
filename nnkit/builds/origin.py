"""Where a build is from, before its code is compiled and run."""

from __future__ import annotations

from nnkit.builds.folder import BuiltFolder
from nnkit.errors import UserFileError
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
    if more or not _is_own(build):
        refuse_foreign_code(str(build.folder), why, trusted=trusted)


def _is_own(build: BuiltFolder) -> bool:
    path = build.folder / "run.json"
    if not path.is_file():
        return False
    run = read_json_object(path, what="run.json", remedy="build it again with `nnkit run`")
    return made_here(build.folder, run.get("made_here"))
