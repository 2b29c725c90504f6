"""The last stages: one reproducible archive, signed when the recipe names a key; and the page for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.build_status import RELEASED, Status
from nnkit.errors import RecipeError, UserFileError
from nnkit.recipe import Recipe
from nnkit.recipe.deployment import DeploymentRecipe
from nnkit.report.progress import Progress
from nnkit.stages.types import Build

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def signing_key(recipe: Recipe | DeploymentRecipe) -> Ed25519PrivateKey | None:
    """The private key of `release.key`; None where releases are not signed.

    Raises RecipeError for a file that is not there or that no signature can be made with.
    """
    from nnkit.package import read_private_key

    key = recipe.release.key
    if key is None:
        return None
    pem = key.existing_file("the signing key").read_bytes()
    try:
        return read_private_key(pem)
    except UserFileError as error:
        raise RecipeError(error.reason, where=key.where, remedy=error.remedy) from error


def package(build: Build, status: Status, folder: Path) -> None:
    """As `pack`, of one network's build."""
    pack(build.progress, build.recipe, status, folder)


def pack(progress: Progress, recipe: Recipe | DeploymentRecipe, status: Status, folder: Path) -> None:
    """Pack the build into `<name>-<version>-<target>.nnpkg`; only a build that passed is packed.

    Its manifest says whether anything has run it.

    Raises RecipeError as `signing_key`.
    """
    from nnkit.package import build_package, sign_package

    with progress.stage("package") as step:
        if status not in RELEASED:
            step.detail = "no release: the build did not pass"
            return
        key = signing_key(recipe)
        archive = build_package(folder, key=key)
        if key is not None:
            sign_package(archive, key)
        step.detail = f"{archive.name}, {archive.stat().st_size:,} B" + (", signed" if key is not None else "")
        step.detail += ", UNPROVEN" if status == "unproven" else ""


def page(build: Build, folder: Path) -> None:
    """Write `report.html` from the other files of the build, the package among them."""
    from nnkit.report.html import write_page

    with build.progress.stage("page") as step:
        step.detail = f"{write_page(folder).stat().st_size:,} B"
