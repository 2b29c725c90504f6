"""Whose code runs: programs that a recipe names, and the C of builds that came from elsewhere, only with `--trust`.

In CI nobody looks at what is trusted: there `--trust` itself is refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from nnkit.errors import UsageError
from nnkit.trust.settings import config_folder


def refuse_programs(programs: Sequence[tuple[str, str]], *, trusted: bool) -> None:
    """Nothing where there are none. programs: (path, place in the recipe). Raises UsageError unless trusted."""
    if not programs:
        return
    name, where = programs[0]
    if not trusted:
        raise UsageError(
            f"the recipe names a program to run: '{name}'",
            where=where,
            remedy="if you know the recipe and the program, add --trust; or leave its path out of the recipe "
            f"and name it under `programs` in {config_folder() / 'config.yaml'}",
        )
    _refuse_in_ci(f"programs of {config_folder() / 'config.yaml'} and of PATH are run, those of recipes are not")


def refuse_foreign_code(folder: str, why: str, *, trusted: bool) -> None:
    """For a build whose code is about to be compiled and run. why: it does not count as made here.

    Raises UsageError unless trusted.
    """
    if not trusted:
        raise UsageError(
            f"this would run what the build holds, code compiled from it included, and {why}",
            where=folder,
            remedy="if you know where it is from, add --trust; "
            "`nnkit simulate` with --on program or --on float runs none of its code",
        )
    _refuse_in_ci("let CI make the builds whose code it runs")


def refuse_sources_in_ci() -> None:
    """For a trusted recipe with sources of its own (layers in Python and C). Raises UsageError in CI."""
    _refuse_in_ci("set NNKIT_TRUSTED_SOURCES to the digests of the sources; without --trust the refusal names them")


def _refuse_in_ci(remedy: str) -> None:
    if os.environ.get("CI", "").lower() in ("1", "true"):
        raise UsageError("--trust is not for CI, where nobody looks", where="--trust", remedy=remedy)
