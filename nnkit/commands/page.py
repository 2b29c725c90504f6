"""`nnkit report` and `nnkit view`: a build's page, written again and opened."""

from __future__ import annotations

from pathlib import Path

from nnkit.commands.common import print_json, print_line


def report_command(build: Path, *, json: bool) -> None:
    """Write `report.html` again, as this version of nnkit makes it."""
    from nnkit.report.html import write_page

    path = write_page(build)
    if json:
        print_json({"page": str(path), "bytes": path.stat().st_size})
    else:
        print_line(str(path))


def view_command(build: Path) -> None:
    """Open `report.html` in the browser; it is written first where the build has none."""
    import webbrowser

    from nnkit.report.html import write_page

    path = build / "report.html"
    if not path.is_file():
        path = write_page(build)
    opened = webbrowser.open(path.resolve().as_uri())
    print_line(str(path) if opened else f"{path}: no browser was found here; open this file in one")
