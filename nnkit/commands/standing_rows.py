"""Rows of a sweep's table for builds that the command leaves as they are, so that its table stays whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nnkit.api.preparing import load
from nnkit.build_status import RELEASED
from nnkit.errors import NnkitError
from nnkit.reading import read_json_object, read_text
from nnkit.recipe.resolved import resolved_yaml
from nnkit.report.sweep_rows import Row, RowState, figures_of

if TYPE_CHECKING:
    from nnkit.commands.sweep import Job

_UNUSED = "leave it out of the table"
_NO_ROW = (NnkitError, KeyError, TypeError, AttributeError)
"""What a damaged build raises, or a mistake in the recipe at that point."""


def standing_rows(jobs: Sequence[Job], out: Path, folder: Path) -> tuple[Row, ...]:
    """A row for every job of which a released build stands in `out` that the same recipe made; none for others.

    folder: where the table is; pages are told from there.
    """
    return tuple(row for job in jobs if (row := _standing(job, out, folder)) is not None)


def _standing(job: Job, out: Path, folder: Path) -> Row | None:
    build = out / job.name / job.key
    if not (build / "report.html").is_file():
        return None
    try:
        report = read_json_object(build / "report.json", what="the report", remedy=_UNUSED)
        made_by = read_text(build / "recipe.yaml", what="the recipe", remedy=_UNUSED)
        recipe = load(job.recipe, (*job.settings, *job.point.settings)).only(job.point.key, job.key)
        status = report["status"]
        if made_by != resolved_yaml(recipe) or status not in RELEASED:
            return None
        page = (build / "report.html").relative_to(folder).as_posix()
        return Row(
            job.name, job.key, cast("RowState", status), job.point.values, figures=figures_of(report), page=page
        )
    except _NO_ROW:
        return None
