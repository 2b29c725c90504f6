"""`nnkit report` and `nnkit view`: a build's page, written again and opened."""

from __future__ import annotations

from pathlib import Path

from nnkit.commands.common import print_json
from nnkit.terminal import print_line


def report_command(build: Path, *, json: bool) -> None:
    """Write `report.html` again, as this version of nnkit makes it."""
    path = _written(build)
    if json:
        print_json({"page": str(path), "bytes": path.stat().st_size})
    else:
        print_line(str(path))


def view_command(build: Path) -> None:
    """Open `report.html` in the browser; it is written first where the build has none.

    Raises UserFileError where the build holds a link: the browser would follow it.
    """
    import webbrowser

    from nnkit.reading import check_plain_tree

    path = build / "report.html"
    if path.is_file():
        check_plain_tree(build, "a build")
    else:
        path = _written(build)
    opened = webbrowser.open(path.resolve().as_uri())
    print_line(str(path) if opened else f"{path}: no browser was found here; open this file in one")


def _written(build: Path) -> Path:
    """The page. Raises UserFileError where the build's report lacks what this version of nnkit shows."""
    from jinja2 import UndefinedError

    from nnkit.api.results import of_another_version
    from nnkit.report.html import write_page

    try:
        return write_page(build)
    except (UndefinedError, KeyError, TypeError, AttributeError) as error:
        raise of_another_version(build, error) from error
