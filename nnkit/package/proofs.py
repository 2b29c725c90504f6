"""What a package says is proven of it, checked again from the package alone: `nnkit package verify --proofs`.

- The memory plan: buffers lie within their regions, no two that live at the same time share a byte, every tensor lies
  in its buffer and lives while a step reads or writes it, and no peak is above the stated one. Where a step writes
  its result over the input that it still reads, the order of its accesses leaves each byte whole until it was read.
- The comparison: no runner that counted differences found one; a release that nothing has run is called unproven.
- The gates: each measured value keeps its limit.
- The files: the statement and the bill of materials name every file with its SHA-256.

- The accumulators: with the sums of weights and the bounds of inputs that the report states, no sum of a convolution
  that it calls proven leaves its accumulator. The weights themselves are not read: an artifact holds them in its
  target's form.

Layers without such sums are counted by what the report says of them. A deployment's package has one memory plan, and
comparison and gates of each of its networks too.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnkit.errors import GateFailedError
from nnkit.package.archive import read_member, verify_package
from nnkit.package.manifest import Manifest
from nnkit.package.overlaps import overlap_proofs
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME

_FROM_ABOVE = ("max_abs", "drop")
_ROUNDING = 1e-9
_ACCUMULATOR_BITS = {"int32": 32, "int64": 64}
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True)
class ProofResult:
    """checked: what was, in words. accumulators: number of other layers by what the report says of their proof."""

    checked: tuple[str, ...]
    accumulators: Mapping[str, int]


def check_proofs(path: Path) -> ProofResult:
    """Verify a package and check its proofs. Raises GateFailedError for the first that does not hold; and as
    `verify_package`."""
    manifest = verify_package(path).manifest
    try:
        plan, report, statement, materials = (
            json.loads(read_member(path, name)) for name in ("plan.json", "report.json", PROVENANCE_NAME, SBOM_NAME)
        )
        held = check_records(plan, report)
        _files(manifest, statement, materials)
        others = Counter(str(layer["proof"]) for layer in _layers(report) if not _is_bounded(layer))
    except _UNREADABLE as error:
        raise _wrong(f"its proofs cannot be read ({type(error).__name__}: {error})") from error
    return ProofResult((*held, f"files: {len(manifest.files)} named with their SHA-256"), dict(others))


def check_records(plan: Mapping[str, Any], report: Mapping[str, Any]) -> tuple[str, ...]:
    """Memory plan, comparison, gates and accumulators: what was checked, in words. Raises GateFailedError for the
    first that does not hold or is none."""
    try:
        buffers, overlaps = _memory(plan)
        runners = _comparison(report)
        bounded = [layer for layer in _layers(report) if _is_bounded(layer)]
        for layer in bounded:
            _stays_within(layer)
        return (
            f"memory plan: {buffers} buffers in {len(plan['regions'])} regions do not overlap while live{overlaps}",
            f"comparison: {runners} runners without a difference" if runners else "comparison: nothing has run it",
            f"gates: {_gates(report)} kept",
            *([f"accumulators: those of {len(bounded)} layers, by the sums of their weights"] if bounded else []),
        )
    except _UNREADABLE as error:
        raise _wrong(f"its proofs cannot be read ({type(error).__name__}: {error})") from error


def _wrong(reason: str) -> GateFailedError:
    return GateFailedError(
        f"a proof does not hold: {reason}", where="package", remedy="ask who released it, or build it from its recipe"
    )


def _memory(plan: Mapping[str, Any]) -> tuple[int, str]:
    """The number of buffers, and words about those that share bytes; none where no two do."""
    proofs = overlap_proofs(plan) if plan.get("version", 1) > 1 else None
    overlaps = 0
    buffers: dict[str, Mapping[str, Any]] = plan["buffers"]
    for name, use in plan["regions"].items():
        inside = [b for b in buffers.values() if b["region"] == name and b["size_bytes"]]
        if any(b["offset_bytes"] < 0 or b["size_bytes"] < 0 for b in inside):
            raise _wrong(f"a buffer lies before {name}")
        end = max((_end(b) for b in inside), default=0)
        if end > use["peak_bytes"] or (use["capacity_bytes"] and use["peak_bytes"] > use["capacity_bytes"]):
            raise _wrong(f"{name} holds {end} bytes, {use['peak_bytes']} of {use['capacity_bytes']} are stated")
        for first, second in _together(inside):
            overlaps += 1
            if proofs is None and _overtakes(plan, first, second):
                continue
            names = first["name"], second["name"]
            reasons = [proofs[pair] for pair in (names, names[::-1]) if pair in proofs] if proofs else []
            if "" in reasons:
                continue
            said = f"{first['name']!r} and {second['name']!r} share bytes of {name} at one time"
            raise _wrong(": ".join((said, *reasons)))
    unknown = {b["region"] for b in buffers.values()} - set(plan["regions"])
    if unknown:
        raise _wrong(f"buffers lie in {', '.join(sorted(unknown))}, which is no region")
    tensors: dict[str, Mapping[str, Any]] = plan["tensors"]
    for name, place in tensors.items():
        if (
            place["offset_bytes"] < 0
            or place["offset_bytes"] + place["size_bytes"] > _of(buffers, place)["size_bytes"]
        ):
            raise _wrong(f"{name!r} lies outside of its buffer")
    for step in plan["steps"]:
        for name in (*step["reads"], *step["writes"]):
            buffer = _of(buffers, tensors[name]) if name in tensors else None
            if buffer is not None and not buffer["first_step"] <= step["index"] <= buffer["last_step"]:
                raise _wrong(f"step {step['index']} uses {name!r}, which does not live then")
    if not overlaps:
        return len(buffers), ""
    whose = "the order of accesses allows" if proofs is not None else "the planner alone vouches for"
    return len(buffers), f"; {overlaps} {'are' if overlaps > 1 else 'is'} written in place, which {whose}"


def _of(buffers: Mapping[str, Mapping[str, Any]], place: Mapping[str, Any]) -> Mapping[str, Any]:
    return buffers[place["buffer"]]


def _end(buffer: Mapping[str, Any]) -> int:
    return int(buffer["offset_bytes"]) + int(buffer["size_bytes"])


def _together(buffers: list[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pairs that share a byte at a time."""
    active: list[Mapping[str, Any]] = []
    for buffer in sorted(buffers, key=lambda b: int(b["offset_bytes"])):
        active = [other for other in active if _end(other) > buffer["offset_bytes"]]
        for other in active:
            if other["first_step"] <= buffer["last_step"] and buffer["first_step"] <= other["last_step"]:
                yield other, buffer
        active.append(buffer)


def _overtakes(plan: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the two are what a step reads for the last time and what it writes over that, some bytes behind.

    All that can be told of a plan of version 1, which does not name the accesses that make it safe.
    """
    if one["offset_bytes"] == other["offset_bytes"]:
        return False
    pairs = ((one, other), (other, one))
    return any(_is_read_as_written(plan, read, written) for read, written in pairs)


def _is_read_as_written(plan: Mapping[str, Any], read: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Whether the step that first writes the one reads the other, for the last time."""
    index, tensors = written["first_step"], plan["tensors"]
    if read["last_step"] != index:
        return False
    step = next(each for each in plan["steps"] if each["index"] == index)
    reads, writes = (
        {tensors[name]["buffer"] for name in step[key] if name in tensors} for key in ("reads", "writes")
    )
    return read["name"] in reads and written["name"] in writes


def _comparison(report: Mapping[str, Any]) -> int:
    """How many runners compared; those of a deployment's networks too."""
    count = 0
    for what, status, runs in (
        ("", report["status"], report["verify"]["program_vs_artifact"]),
        *((f"{each['name']}: ", each["status"], each["program_vs_artifact"]) for each in report.get("networks", ())),
    ):
        ran = [entry for entry in runs if entry["contract"] != "not_run"]
        for entry in ran:
            if entry["mismatches"] != 0:
                raise _wrong(f"{what}{entry['how']} found {entry['mismatches']} differences")
        if status == "ok" and not ran:
            raise _wrong(f"{what}the status is 'ok', and nothing has run it")
        count += len(ran)
    return count


def _gates(report: Mapping[str, Any]) -> int:
    """How many there are; a deployment has those of its networks."""
    networks = report.get("networks")
    gates = report["verify"]["gates"] if networks is None else [gate for each in networks for gate in each["gates"]]
    for gate in gates:
        # what is null in a report was infinite where it passed
        value, limit = math.inf if gate["measured"] is None else float(gate["measured"]), float(gate["limit"])
        margin = value - limit if gate["name"] not in _FROM_ABOVE else limit - value
        if not (margin >= 0 or math.isclose(value, limit, rel_tol=_ROUNDING)) or not gate["passed"]:
            raise _wrong(f"the gate {gate['name']} demands {limit:g}, {value:g} was measured")
    return len(gates)


def _layers(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """None where the report is a deployment's, whose networks have reports of their own."""
    return [] if "networks" in report else report.get("layers", [])


def _is_bounded(layer: Mapping[str, Any]) -> bool:
    return "accumulator_sums" in layer and layer["proof"] == "proven"


def _stays_within(layer: Mapping[str, Any]) -> None:
    """Whether the sums of a convolution, as far as they can reach, fit its accumulator."""
    sums, limit = layer["accumulator_sums"], 1 << (_ACCUMULATOR_BITS[layer["accumulator"]] - 1)
    low, high = int(sums["low"]), int(sums["high"])
    form = re.match(r"([su])(\d+)\.", layer["formats"]["input0"])
    if form and form[1] == "s" and not (-(1 << (int(form[2]) - 1)) <= low and high < 1 << (int(form[2]) - 1)):
        raise _wrong(f"{layer['name']!r} reads {low}..{high}, which {layer['formats']['input0']} does not hold")
    if not low <= 0 <= high or not sums["channels"] or sums["rounding"] < 0:
        raise _wrong(f"the bounds of {layer['name']!r} are none")
    for channel in sums["channels"]:
        positive, negative, start = (int(channel[key]) for key in ("positive", "negative", "start"))
        most = positive * high + negative * low + start + int(sums["rounding"])
        least = positive * low + negative * high + start
        if positive < 0 or negative > 0 or not (-limit <= least and most < limit):
            raise _wrong(
                f"sums of {layer['name']!r} reach {least} and {most}, beyond an {layer['accumulator']} accumulator"
            )


def _files(manifest: Manifest, statement: Mapping[str, Any], materials: Mapping[str, Any]) -> None:
    own = {n: it.sha256 for n, it in manifest.files.items() if n not in (PROVENANCE_NAME, SBOM_NAME)}
    if {each["name"]: each["digest"]["sha256"] for each in statement["subject"]} != own:
        raise _wrong(f"{PROVENANCE_NAME} names other files than the package has")
    if {each["name"]: each["hashes"][0]["content"] for each in materials["components"]} != own:
        raise _wrong(f"{SBOM_NAME} names other files than the package has")
