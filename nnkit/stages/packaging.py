"""The last stage: one reproducible archive, signed when the recipe names a key."""

from __future__ import annotations

from pathlib import Path

from nnkit.build_status import RELEASED, Status
from nnkit.errors import RecipeError, UserFileError
from nnkit.stages.types import Build


def package(build: Build, status: Status, folder: Path) -> None:
    """Pack the build into `<name>-<version>-<target>.nnpkg`; only a build that passed is packed.

    Its manifest says whether anything has run it.

    Raises RecipeError for a signing key that is missing.
    """
    from nnkit.package import build_package, sign_package

    with build.progress.stage("package") as step:
        if status not in RELEASED:
            step.detail = "no release: the build did not pass"
            return
        archive = build_package(folder, manifest_extra={})
        key = build.recipe.release.key
        if key is not None:
            path = key.existing_file("the signing key")
            try:
                sign_package(archive, path.read_bytes())
            except UserFileError as error:
                raise RecipeError(error.reason, where=key.where, remedy=error.remedy) from error
        step.detail = f"{archive.name}, {archive.stat().st_size:,} B" + (", signed" if key is not None else "")
        step.detail += ", UNPROVEN" if status == "unproven" else ""
