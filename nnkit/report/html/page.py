"""The page: templates filled, and data, styles, scripts and libraries put into the one file."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.generated import packaged_text, template_environment
from nnkit.output_file import write_output
from nnkit.report.html.deployment import deployment_values, is_deployment_report
from nnkit.report.html.files import PageFiles, read_page_files
from nnkit.report.html.verdict import command_of, figures_of, not_emulated, overlap_in, peak_layers, verdict_of
from nnkit.report.html.words import (
    breakable,
    byte_size,
    coded,
    cosine_in_words,
    count,
    decibel,
    decimal,
    is_numeric,
    milliseconds,
    ranked_otherwise,
    share,
    shortly,
)

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = "nnkit.report.html"
_SCRIPTS = ("common.js", "tabs.js", "sortable.js", "table.js", "layer.js", "memory.js", "graph.js", "accuracy.js")
LICENCES = ("echarts.NOTICE", "echarts.LICENSE", "zrender.LICENSE", "tslib.LICENSE", "dagre.LICENSE")


def write_page(build: Path) -> Path:
    """Write `report.html` of a build folder from the files in it; the same files give the same bytes.

    Returns the page's path. Raises UserFileError where the folder is no build or cannot be written.
    """
    path = build / "report.html"
    files = read_page_files(build)
    page = _deployment_html(build, files) if is_deployment_report(files.report) else page_html(files)
    write_output(path, page, "the page", sent=[build])
    return path


def _deployment_html(build: Path, files: PageFiles) -> str:
    values = deployment_values(build, files, HERE)
    data = embedded(values["shown"] | {"drawn": {}})
    return page_environment().get_template("deployment.html.j2").render(values, data=data)


def page_html(files: PageFiles) -> str:
    """The page's text."""
    report = files.report
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            plan=files.plan,
            graph=files.drawn.get("graph"),
            task=files.drawn.get("task", {}),
            tables=files.drawn.get("tables", []),
            parts=files.drawn.get("segments", []),
            memories=files.drawn.get("memories", []),
            timelines=files.drawn.get("timelines", []),
            proofs=files.drawn.get("proofs", {}),
            places=places(report),
            package=files.package,
            pictures={name: _data_uri(content) for name, content in files.pictures.items()},
            verdict=verdict_of(report),
            command=command_of(
                report, "--target", report["target"], *(["--no-qemu"] if not_emulated(report) else [])
            ),
            figures=figures_of(files),
            peaks={region: peak_layers(files.plan, region) for region in report["memory"]},
            overlaps=[region for region in report["memory"] if overlap_in(files.plan, region)],
            columns=_columns(report),
            most=_most(report),
            data=embedded({"report": _shown(report), "plan": files.plan, "drawn": files.drawn}),
            style=packaged_text(HERE, "page.css"),
            libraries=[packaged_text(HERE, "vendor", name) for name in ("echarts.min.js", "dagre.min.js")],
            scripts=[packaged_text(HERE, "js", name) for name in _SCRIPTS],
            licences=[(name, packaged_text(HERE, "vendor", f"{name}.txt")) for name in LICENCES],
        )
    )


def page_environment() -> Environment:
    """The pages' templates, which escape what they are given, with the filters for numbers."""
    environment = template_environment(HERE, "templates").overlay(autoescape=True)
    environment.filters |= {
        "breakable": breakable,
        "bytes": byte_size,
        "coded": coded,
        "cosine": cosine_in_words,
        "count": count,
        "decibel": decibel,
        "decimal": decimal,
        "milliseconds": milliseconds,
        "ranked_otherwise": ranked_otherwise,
        "share": share,
        "shortly": shortly,
    }
    environment.tests["numeric"] = is_numeric
    return environment


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _shown(report: Any) -> dict[str, Any]:
    """What scripts read of the report; the rest is in the page's text already."""
    kept = ("target", "memory", "layers", "segments", "rewrites", "verify")
    return {key: report[key] for key in kept} | {"places": places(report)}


def places(report: Any) -> dict[str, str]:
    """What the page calls the two placements: layers run on the CPU, too, where the machine has no other unit."""
    return {"npu": report.get("machine", {}).get("layers_run_on", "NPU"), "cpu": "CPU"}


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: no `<`, nothing that ends a line for JavaScript alone."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _columns(report: Any) -> list[tuple[str, str, str]]:
    """(key, heading, unit) of the columns of numbers that any layer of this build has."""
    known = (
        ("macs", "MACs", "count"),
        ("weight_bytes", "weights", "bytes"),
        ("peak_bytes", "peak", "bytes"),
        ("instructions", "instructions", "count"),
        ("cycles", "cycles (est.)", "count"),
        ("milliseconds", "ms (est.)", "milliseconds"),
        ("sqnr_db", "SQNR", "decibel"),
        ("isolated_sqnr_db", "SQNR isolated", "decibel"),
        ("clip_rate", "clipped", "share"),
    )
    return [column for column in known if any(layer.get(column[0]) is not None for layer in report["layers"])]


def _most(report: Any) -> dict[str, float]:
    """The largest number of each column, for the bars in the cells."""
    return {key: max(layer.get(key) or 0.0 for layer in report["layers"]) or 1.0 for key, _, _ in _columns(report)}
