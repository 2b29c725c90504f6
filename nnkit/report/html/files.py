"""What the page is made of, as it lies in a build folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnkit.errors import UserFileError
from nnkit.reading import check_plain_tree, read_bytes, read_json_object

_RUN_AGAIN = "name a folder that `nnkit run` made: out/<name>/<target>"


@dataclass(frozen=True, eq=False)
class PageFiles:
    """report, plan: the JSON files of these names; drawn: `page.json`, empty in builds without one.

    pictures: PNG by path below the build folder. package: name and bytes of the archive, None where none was made.
    """

    report: Mapping[str, Any]
    plan: Mapping[str, Any]
    drawn: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    package: tuple[str, int] | None = None


def read_page_files(build: Path) -> PageFiles:
    """The files of a build. Raises UserFileError where it is none, or a file is missing or damaged."""
    if not (build / "report.json").is_file():
        raise UserFileError("not a build: it has no report.json", where=str(build), remedy=_RUN_AGAIN)
    check_plain_tree(build, "a build")
    report = read_json_object(build / "report.json", what="the report", remedy=_RUN_AGAIN)
    plan = read_json_object(build / "plan.json", what="the memory plan", remedy=_RUN_AGAIN)
    drawn = build / "page.json"
    packages = sorted(build.glob("*.nnpkg"))
    return PageFiles(
        report,
        plan,
        read_json_object(drawn, what="the page's data", remedy=_RUN_AGAIN) if drawn.is_file() else {},
        {name: read_bytes(build / name, what="a picture") for name in _pictures(report, build)},
        (packages[0].name, packages[0].stat().st_size) if packages else None,
    )


def _pictures(report: Mapping[str, Any], build: Path) -> list[str]:
    """Paths of the pictures that a report names and that are there; none that leads out of the build, as a link of
    somebody else's build may: the page would hand the file on."""
    named = [entry.get("picture") for entry in report.get("verify", {}).get("worst", ())]
    inside = [name for name in named if name and name.startswith("verify/pictures/")]
    own = build.resolve()
    return [name for name in inside if (build / name).is_file() and (build / name).resolve().is_relative_to(own)]
