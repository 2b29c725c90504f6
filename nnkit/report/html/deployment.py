"""The page of a deployment: stages, networks, the shared memory, whom the pipeline found."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.generated import packaged_text
from nnkit.reading import read_bytes
from nnkit.report.html.verdict import WORDS

if TYPE_CHECKING:
    from jinja2 import Environment

_PICTURES = "verify/frames/"


def is_deployment_report(report: Mapping[str, Any]) -> bool:
    """Whether a report is of several networks."""
    return "networks" in report


def deployment_page(build: Path, report: Mapping[str, Any], environment: Environment, here: str) -> str:
    """The page's text; the same files give the same bytes."""
    packages = sorted(build.glob("*.nnpkg"))
    drawings = {region: build / f"memory_{region}.svg" for region in report["memory"]}
    names = [name for name in report["pictures"] if name.startswith(_PICTURES) and ".." not in name]
    return environment.get_template("deployment.html.j2").render(
        report=report,
        word=WORDS.get(report["status"], report["status"]),
        style=packaged_text(here, "page.css"),
        columns=_columns(report),
        drawings={
            name: _data_uri("image/svg+xml", read_bytes(path, what="a drawing"))
            for name, path in drawings.items()
            if path.is_file()
        },
        pictures={
            name.removeprefix(_PICTURES): _data_uri("image/png", read_bytes(build / name, what="a picture"))
            for name in names
            if (build / name).is_file()
        },
        package=(packages[0].name, packages[0].stat().st_size) if packages else None,
    )


def _columns(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Runners that count, with what they count."""
    columns = [
        (how, unit)
        for stage in report["stages"]
        for how, values in stage.get("measured", {}).items()
        for unit in values
        if unit != "runs"
    ]
    return list(dict.fromkeys(columns))


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64," + base64.b64encode(content).decode("ascii")
