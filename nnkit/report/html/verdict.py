"""The verdict and the four figures at the top of the page: fits, accurate, fast, small."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnkit.report.html.files import PageFiles
from nnkit.report.html.words import byte_size, compared_inputs, cosine_in_words, count, decibel, decimal, share
from nnkit.verify.gates import GateResult, limit_in_words

WORDS = {"ok": "Passed", "unproven": "Not proven", "gate_failed": "Failed", "mismatch": "Failed"}
SIGNS = {"ok": "✓", "unproven": "?", "gate_failed": "✗", "mismatch": "✗"}

_NOT_EMULATED = "the runner that counts was skipped by --no-qemu: run without it"
_NO_TIME = (
    "no runner counts instructions or cycles, and the target has no clock of its own: measure it where it will run"
)


@dataclass(frozen=True)
class Line:
    """A line of a figure: what, the value, and what else there is to say. filled: share of a bar, with its mark."""

    what: str
    value: str
    note: str = ""
    filled: float | None = None
    mark: float | None = None


@dataclass(frozen=True)
class Figure:
    """One of the four. kind: `measured` or `estimated`, as the page says it."""

    title: str
    headline: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Proof:
    """One runner. state: `agrees`, `differs` or `not run`."""

    how: str
    state: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The line at the top: status in words, why, the runners, the gates."""

    status: str
    word: str
    sign: str
    why: str
    proofs: tuple[Proof, ...]
    gates: tuple[tuple[GateResult, str], ...]


def verdict_of(report: Mapping[str, Any]) -> Verdict:
    """What the page says first."""
    status, verify = report["status"], report["verify"]
    gates = tuple(
        (gate, limit_in_words(gate.name, gate.limit)) for gate in map(GateResult.from_json, verify["gates"])
    )
    proofs = tuple(_proof(entry) for entry in verify["program_vs_artifact"])
    return Verdict(status, WORDS.get(status, status), SIGNS.get(status, ""), _why(report, proofs), proofs, gates)


def _why(report: Mapping[str, Any], proofs: tuple[Proof, ...]) -> str:
    status, verify = report["status"], report["verify"]
    if status == "mismatch":
        return "The artifact does not compute what its program says."
    if status == "unproven":
        reasons = "; ".join(f"{p.how}: {p.text}" for p in proofs) or "the target has no runner"
        return f"Nothing has run the artifact: {reasons}."
    if status == "gate_failed":
        failed = [entry["name"] for entry in verify["gates"] if not entry["passed"]]
        missing = [entry["how"] for entry in verify.get("required", ()) if not entry["ran"]]
        parts = [f"gate {name}" for name in failed] + [f"required runner {how} did not run" for how in missing]
        return f"Not within the recipe's limits: {', '.join(parts)}."
    ran = [proof.how for proof in proofs if proof.state == "agrees"]
    demanded = "every gate holds" if verify["gates"] else "the recipe has no gates"
    left = [proof.how for proof in proofs if proof.state == "not run"]
    not_run = f" Not run: {', '.join(left)}." if left else ""
    return f"The artifact was run ({', '.join(ran)}) and agrees with its program; {demanded}.{not_run}"


def _proof(entry: Mapping[str, Any]) -> Proof:
    if entry["contract"] == "not_run":
        return Proof(entry["how"], "not run", entry["reason"])
    bound = " by more than the stated bound" if entry["contract"] == "bounded" else ""
    text = (
        f"{count(entry['mismatches'])} of {count(entry['values'])} values differ{bound}, on {entry['inputs']} inputs"
    )
    if entry.get("first_difference"):
        text += f"; first: {entry['first_difference']}"
    return Proof(entry["how"], "differs" if entry["mismatches"] else "agrees", text)


def figures_of(files: PageFiles) -> tuple[Figure, ...]:
    """Fits, accurate, fast, small."""
    return fits(files), _accurate(files.report), _fast(files.report), _small(files)


def fits(files: PageFiles) -> Figure:
    """Peak, capacity and lower bound of every memory, and the layer that makes the peak."""
    regions = files.report["memory"]
    lines = []
    proofs = files.drawn.get("proofs", {})
    for name, use in regions.items():
        capacity = use["capacity_bytes"] or 1
        least = f"at least {byte_size(use['lower_bound_bytes'])}"
        proof = proofs.get(name) or ("no plan of these buffers takes less" if use["proven_optimal"] else least)
        of = f" of {byte_size(use['capacity_bytes'])}" if use.get("limited", True) else ""
        makers = peak_layers(files.plan, name)
        lines.append(
            Line(
                name,
                f"{byte_size(use['peak_bytes'])}{of}",
                proof + (f"; peak in {makers[0]}" if makers else ""),
                min(1.0, use["peak_bytes"] / capacity) if of else None,
                min(1.0, use["lower_bound_bytes"] / capacity) if of else None,
            )
        )
    if not lines and files.drawn.get("memories"):
        return _estimated(files.drawn["memories"])
    if not lines:
        return Figure(
            "Fits",
            "not placed by nnkit",
            (Line("memory", "–", "the target's compiler or runtime places all buffers"),),
        )
    limited = [use["peak_bytes"] / use["capacity_bytes"] for use in regions.values() if _is_limited(use)]
    if not limited:
        name = max(regions, key=lambda region: int(regions[region]["peak_bytes"]))
        return Figure("Fits", f"{byte_size(regions[name]['peak_bytes'])} of {name}", tuple(lines))
    return Figure("Fits", f"{share(max(limited))} of the fullest memory", tuple(lines))


def _estimated(memories: Sequence[Mapping[str, Any]]) -> Figure:
    """What nnkit estimates where a target's own tool places all buffers, with the layers that take most."""
    lines = []
    for memory in memories:
        most = max(memory["spans"], key=lambda span: int(span["size_bytes"]))
        capacity = memory["capacity_bytes"]
        size = byte_size(most["size_bytes"])
        lines.append(
            Line(
                memory["name"],
                f"{size} of {byte_size(capacity)}" if capacity else size,
                f"{memory['title'][:1].lower()}{memory['title'][1:]}; most in {most['name']}",
                min(1.0, most["size_bytes"] / capacity) if capacity else None,
                1.0 if capacity else None,
            )
        )
    return Figure("Fits", f"{lines[0].value} (estimate)", tuple(lines))


def _is_limited(use: Mapping[str, Any]) -> bool:
    return bool(use["capacity_bytes"]) and use.get("limited", True) is True


def peak_layers(plan: Mapping[str, Any], region: str) -> list[str]:
    """The layers in whose steps most bytes of a region are in use, in order of execution."""
    buffers = [b for b in plan["buffers"].values() if b["region"] == region]
    steps = plan["steps"]
    live = [0] * len(steps)
    for buffer in buffers:
        for step in range(buffer["first_step"], min(buffer["last_step"] + 1, len(steps))):
            live[step] += buffer["size_bytes"]
    peak = max(live, default=0)
    if not peak or min(live) == peak:
        return []
    return list(dict.fromkeys(step["op"] for step, size in zip(steps, live, strict=True) if size == peak))


def overlap_in(plan: Mapping[str, Any], region: str) -> bool:
    """Whether two buffers of a region have bytes in common while both are in use."""
    held = sorted(
        (buffer for buffer in plan["buffers"].values() if buffer["region"] == region and buffer["size_bytes"]),
        key=lambda buffer: int(buffer["first_step"]),
    )
    for index, one in enumerate(held):
        for other in held[index + 1 :]:
            if other["first_step"] > one["last_step"]:
                break
            ends = (each["offset_bytes"] + each["size_bytes"] for each in (one, other))
            if max(one["offset_bytes"], other["offset_bytes"]) < min(ends):
                return True
    return False


def _accurate(report: Mapping[str, Any]) -> Figure:
    outputs, task = report["verify"]["float_vs_program"], report["verify"].get("task")
    distance = (
        Line("cosine", cosine_in_words(outputs["cosine"]), f"to the float network, on {compared_inputs(outputs)}"),
        Line("SQNR", "exact" if outputs["max_abs"] == 0 else decibel(outputs["sqnr_db"])),
        Line("largest error", decimal(outputs["max_abs"], 3)),
    )
    if task is None:
        cosine = outputs["cosine"]
        return Figure("Accurate", "not measured" if cosine is None else f"cosine {cosine_in_words(cosine)}", distance)
    metrics = tuple(
        Line(
            metric["name"].replace("_", " "),
            decimal(metric["program"], 4),
            "" if metric["float"] is None else f"float {decimal(metric['float'], 4)}",
        )
        for metric in task["metrics"]
    )
    # What is measured against labels, of the float network too, says more than how far both agree.
    first = next((line for line in metrics if line.note), metrics[0])
    return Figure("Accurate", f"{first.what} {first.value}", metrics + distance)


def not_emulated(report: Mapping[str, Any]) -> bool:
    """Whether the build was run with --no-qemu, which left runners out."""
    return any("--no-qemu" in entry.get("reason", "") for entry in report["verify"]["program_vs_artifact"])


def command_of(report: Mapping[str, Any], *options: str) -> str:
    """The command that makes the build again, to be typed in the folder of its recipe."""
    words = ["nnkit", "run", report["recipe_file"], *options]
    for setting in report.get("settings", ()):
        words += ["--set", setting]
    return shlex.join(words)


def _fast(report: Mapping[str, Any]) -> Figure:
    lines = [Line("multiply-accumulates", count(report["macs"]), "of one inference")]
    counted = [entry for entry in report["verify"]["program_vs_artifact"] if "instructions" in entry]
    for entry in counted:
        per_mac = f", {entry['instructions'] / report['macs']:.2f} per MAC" if report["macs"] else ""
        lines.append(
            Line("instructions", count(entry["instructions"]), f"measured, counted on {entry['how']}{per_mac}")
        )
    speed = [(each, f"{_quantity(each['value'])} {each['unit']}") for each in report["speed"]]
    speed = [(each, value.removesuffix(f" {each['what']}")) for each, value in speed]
    lines += [Line(each["what"], value, f"{each['kind']}: {each['how']}") for each, value in speed]
    if speed:
        headline = f"{speed[0][1]} ({speed[0][0]['kind']})"
    elif counted:
        headline = f"{counted[0]['instructions'] / 1e6:.3g} million instructions"
    else:
        headline = f"{report['macs'] / 1e6:.3g} million MACs"
        lines.append(Line("time", "–", _NOT_EMULATED if not_emulated(report) else _NO_TIME))
    return Figure("Fast", headline, tuple(lines))


def _quantity(value: float) -> str:
    return count(value) if value >= 1000 else decimal(value, 4)


def _small(files: PageFiles) -> Figure:
    report = files.report
    weights = report["planner"]["weight_bytes"] or sum(layer.get("weight_bytes") or 0 for layer in report["layers"])
    artifact = sum(entry["bytes"] for entry in report["artifact"].values())
    lines = [Line("weights", byte_size(weights or None))]
    for entry in report["verify"]["program_vs_artifact"]:
        code = entry.get("measured", {}).get("code_bytes")
        if code is not None:
            lines.append(Line("code", byte_size(code), f"compiled for {entry['how']}"))
    lines.append(Line("artifact", byte_size(artifact), _files(len(report["artifact"]))))
    if files.package is not None:
        lines.append(Line("package", byte_size(files.package[1]), files.package[0]))
    else:
        lines.append(Line("package", "–", "none: the build did not pass"))
    headline = f"{byte_size(weights)} of weights" if weights else f"{byte_size(artifact)} of files"
    return Figure("Small", headline, tuple(lines))


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"
