"""The page of a deployment: stages, networks, the shared memory, whom the pipeline found."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.generated import packaged_text
from nnkit.reading import read_bytes, read_json_object
from nnkit.report.html.files import PageFiles
from nnkit.report.html.verdict import SIGNS, WORDS, Figure, Line, command_of, fits, peak_layers
from nnkit.report.html.words import byte_size, cosine_in_words, count, decibel, milliseconds

TABS = (
    ("overview", "Overview"),
    ("memory", "Memory"),
    ("session", "Session"),
    ("provenance", "Provenance"),
)
SCRIPTS = ("common.js", "tabs.js", "memory.js")
LIBRARIES = ("echarts.min.js",)
LICENCES = ("echarts.NOTICE", "echarts.LICENSE", "zrender.LICENSE", "tslib.LICENSE")
_PICTURES = "verify/frames/"


def is_deployment_report(report: Mapping[str, Any]) -> bool:
    """Whether a report is of several networks."""
    return "networks" in report


def deployment_values(build: Path, files: PageFiles, here: str) -> dict[str, Any]:
    """What the page's template is filled with, by the files alone. here: the package of the templates."""
    report = files.report
    networks = _networks(build, report)
    names = [name for name in report["pictures"] if name.startswith(_PICTURES) and ".." not in name]
    tabs = tuple(tab for tab in TABS if tab[0] != "session" or report["faces"])
    return {
        "report": report,
        "command": command_of(report),
        "plan": files.plan,
        "word": WORDS.get(report["status"], report["status"]),
        "sign": SIGNS.get(report["status"], ""),
        "why": _why(report),
        "tabs": tabs,
        "figures": _figures(files, report),
        "peaks": {region: peak_layers(files.plan, region) for region in report["memory"]},
        "columns": _columns(report),
        "package": files.package,
        "pictures": {
            name.removeprefix(_PICTURES): _data_uri(read_bytes(build / name, what="a picture"))
            for name in names
            if (build / name).is_file()
        },
        "shown": {"report": {"memory": report["memory"], "layers": _layers(networks)}, "plan": files.plan},
        "style": packaged_text(here, "page.css"),
        "libraries": [packaged_text(here, "vendor", name) for name in LIBRARIES],
        "scripts": [packaged_text(here, "js", name) for name in SCRIPTS],
        "licences": [(name, packaged_text(here, "vendor", f"{name}.txt")) for name in LICENCES],
    }


def _networks(build: Path, report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The networks' own reports, of those whose folder is there."""
    folders = {each["name"]: build / "networks" / Path(each["folder"]).name for each in report["networks"]}
    return {
        name: read_json_object(
            folder / "report.json", what="the report of a network", remedy="build the deployment again"
        )
        for name, folder in folders.items()
        if (folder / "report.json").is_file()
    }


def _layers(networks: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the drawing of the memory needs of each layer, named as the plan's steps are."""
    return [
        {"name": f"{name}/{layer['name']}"} | {key: layer.get(key) for key in ("macs", "instructions")}
        for name, own in networks.items()
        for layer in own["layers"]
    ]


def _why(report: Mapping[str, Any]) -> str:
    runs = report["verify"]["program_vs_artifact"]
    failed = [
        f"network {each['name']}: {each['status'].replace('_', ' ')}"
        for each in report["networks"]
        if not each["released"]
    ]
    failed += [f"{each['how']}: {count(each['mismatches'])} bytes differ" for each in runs if each["mismatches"]]
    if failed:
        return f"{'; '.join(failed)}."
    ran = [each["how"] for each in runs if each["contract"] != "not_run"]
    left = [f"{each['how']}: {each['reason']}" for each in runs if each["contract"] == "not_run"]
    many = len(report["networks"])
    done = f"{many} networks in one memory were run ({', '.join(ran)}) and agree in every byte." if ran else ""
    return " ".join([*([done] if done else []), *([f"Not run: {'; '.join(left)}."] if left else [])])


def _figures(files: PageFiles, report: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Fits, accurate, fast, small."""
    return fits(files), _accurate(report), _fast(report), _small(files, report)


def _accurate(report: Mapping[str, Any]) -> Figure:
    lines = tuple(
        Line(
            each["name"],
            f"cosine {cosine_in_words(each['cosine'])}",
            f"{decibel(each['sqnr_db'])} to the float network",
        )
        for each in report["networks"]
    )
    known = [each for each in report["networks"] if each["cosine"] is not None]
    if not known:
        return Figure("Accurate", "not measured", lines)
    least = min(known, key=lambda each: float(each["cosine"]))
    return Figure("Accurate", f"cosine {cosine_in_words(least['cosine'])} or better", lines)


def _fast(report: Mapping[str, Any]) -> Figure:
    lines, total = [], 0.0
    clock = report.get("clock_hz")
    for stage in report["stages"]:
        for how, values in list(stage.get("measured", {}).items())[:1]:
            unit = next(key for key in values if key not in ("runs", "milliseconds"))
            time = values.get("milliseconds")
            total += time or 0.0
            value = f"{count(values[unit])} {unit}" if time is None else f"{milliseconds(time)} ms"
            lines.append(Line(stage["name"], value, f"a run, measured on {how}: {count(values[unit])} {unit}"))
    if not lines:
        return Figure("Fast", "not measured", (Line("time", "–", "no runner that counts has run"),))
    if clock is None:
        return Figure("Fast", "instructions counted", tuple(lines))
    note = f"one a cycle at {clock / 1e6:g} MHz; what it takes to search a frame with one face in it"
    return Figure(
        "Fast",
        f"{milliseconds(total)} ms (estimate)",
        (Line("all stages", f"{milliseconds(total)} ms", note), *lines),
    )


def _small(files: PageFiles, report: Mapping[str, Any]) -> Figure:
    lines = [Line(f"weights, {each['name']}", byte_size(each["weight_bytes"])) for each in report["networks"]]
    codes = {
        each["how"]: each.get("measured", {}).get("code_bytes") for each in report["verify"]["program_vs_artifact"]
    }
    lines += [Line("code", byte_size(size), f"compiled for {how}") for how, size in codes.items() if size]
    size = sum(entry["bytes"] for entry in report["artifact"].values())
    lines.append(Line("artifact", byte_size(size), f"{len(report['artifact'])} files"))
    if files.package is None:
        lines.append(Line("package", "–", "none: the build did not pass"))
    else:
        lines.append(Line("package", byte_size(files.package[1]), files.package[0]))
    weights = sum(each["weight_bytes"] for each in report["networks"])
    return Figure("Small", f"{byte_size(weights)} of weights", tuple(lines))


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


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
