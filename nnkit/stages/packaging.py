"""The last stage: one reproducible archive, signed when the recipe names a key."""

from __future__ import annotations

from pathlib import Path

from nnkit.errors import RecipeError, UserFileError
from nnkit.stages.types import Build


def package(build: Build, status: str, folder: Path) -> None:
    """Pack the build into `<name>-<version>-<target>.nnpkg`; only a build that passed is packed.

    Raises RecipeError for a signing key that is missing.
    """
    from nnkit.package import build_package, sign_package

    with build.progress.stage("package") as step:
        if status != "ok":
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
