"""`nnkit.load_build`: a finished build as a typed result."""

from __future__ import annotations

from pathlib import Path

from nnkit.api.results import BuildResult, result_of
from nnkit.builds import open_build


def load_build(folder: str | Path) -> BuildResult:
    """The build in a folder that a run made, `out/<name>/<target>`.

    Raises UserFileError where it is none, or where its files are not those that its report was written with.
    """
    opened = open_build(Path(folder))
    return result_of(opened.folder, opened.report)
