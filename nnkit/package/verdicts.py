"""The verdict of a package, drawn again from what its report says of runners, gates and figures.

Gates are those of the recipe, what was measured for them are the figures of the report, and the status is what
runners and gates come to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nnkit.build_status import RELEASED
from nnkit.package.contradiction import ContradictionError, hold_equal
from nnkit.package.evidence import RECIPE, REPORT, Evidence, network_folder

_FROM_ABOVE = ("max_abs", "drop")
_ROUNDING = 1e-9
_FIGURES = ("cosine", "sqnr_db")
_LISTS = ("gates", "program_vs_artifact")


def check_runs(evidence: Evidence) -> int:
    """How many runners compared; those of a deployment's networks too. Raises ContradictionError where one found a
    difference, or the status is another than these runs and the gates come to."""
    count = 0
    for each in (*evidence.networks.values(), evidence):
        file, runs = each.file(REPORT), each.report["verify"]["program_vs_artifact"]
        for entry in runs:
            if entry["mismatches"] != 0:
                raise ContradictionError(file, f"{entry['how']} found {entry['mismatches']} differences")
        ran = [entry for entry in runs if entry["contract"] != "not_run"]
        for entry in ran:
            if entry["values"] < 1 or entry["inputs"] < 1:
                raise ContradictionError(file, f"{entry['how']} is said to have run, and compared nothing")
        _check_status(each, [entry["how"] for entry in ran])
        count += len(ran)
    return count


def check_gates(evidence: Evidence) -> int:
    """How many there are; a deployment has those of its networks. Raises ContradictionError where they are not the
    recipe's, do not hold, or what was measured is another figure than the report gives."""
    count = 0
    for each in evidence.of_networks:
        file, gates = each.file(REPORT), each.report["verify"]["gates"]
        asked = {name: limit for name, limit in each.recipe["verify"]["gates"].items() if limit is not None}
        limits = {gate["name"]: gate["limit"] for gate in gates}
        if len(limits) != len(gates):
            raise ContradictionError(file, "a gate stands twice among verify.gates")
        hold_equal(file, limits, each.file(RECIPE), asked, at="gates")
        for gate in gates:
            _check_measured(gate, each.report["verify"], file)
            _check_gate(gate, file)
        count += len(gates)
    return count


def check_networks(evidence: Evidence) -> None:
    """Raises ContradictionError where the report of a deployment says other things of a network than that network's
    own report."""
    rows = {row["name"]: row for row in evidence.report["networks"]}
    file = evidence.file(REPORT)
    for name, network in evidence.networks.items():
        report, row = network.report, rows[name]
        verify = report["verify"]
        own = {
            "name": name,
            "status": report["status"],
            "released": report["status"] in RELEASED,
            "folder": network_folder(name).rstrip("/"),
            "weight_bytes": report["planner"]["weight_bytes"],
            "macs": report["macs"],
            **{key: verify["float_vs_program"][key] for key in _FIGURES},
            **{key: verify[key] for key in _LISTS},
        }
        hold_equal(file, {key: row.get(key) for key in own}, network.file(REPORT), own, at=f"networks of {name!r}")
    for key in ("inputs", "outputs"):
        tensors = [
            {**tensor, "name": f"{name}/{tensor['name']}"}
            for name, network in evidence.networks.items()
            for tensor in network.report[key]
        ]
        hold_equal(file, evidence.report[key], "the networks' reports", tensors, at=key)


def _check_status(evidence: Evidence, ran: Sequence[str]) -> None:
    """ran: the runners that compared, and found no difference."""
    report, file = evidence.report, evidence.file(REPORT)
    verify, status = report["verify"], report["status"]
    if status not in RELEASED:
        raise ContradictionError(file, f"the status is {status!r}: only {' and '.join(RELEASED)} are released")
    hows = {entry["how"] for entry in verify["program_vs_artifact"]}
    if len(hows) != len(verify["program_vs_artifact"]):
        raise ContradictionError(file, "a runner stands twice among verify.program_vs_artifact")
    asked = [] if evidence.networks else evidence.recipe["verify"].get("require") or []
    required = [name for name in asked if name in hows]
    have_run = {each["how"]: each["ran"] for each in verify.get("required", [])}
    hold_equal(file, have_run, evidence.file(RECIPE), dict.fromkeys(required, True), at="required runners that ran")
    for name in required:
        if name not in ran:
            raise ContradictionError(file, f"{name} is required by {evidence.file(RECIPE)}, and has not run")
    if status == "ok" and not ran:
        raise ContradictionError(file, "the status is 'ok', and nothing has run it")
    unproven = [name for name, each in evidence.networks.items() if each.report["status"] == "unproven"]
    if status == "unproven" and ran and not unproven:
        raise ContradictionError(file, f"the status is 'unproven', and {ran[0]} has run it")
    if status == "ok" and unproven:
        raise ContradictionError(file, f"the status is 'ok', and that of {unproven[0]!r} is 'unproven'")


def _check_measured(gate: Mapping[str, Any], verify: Mapping[str, Any], file: str) -> None:
    """Whether the gate measured what the report states elsewhere."""
    metrics = {each["name"]: each for each in verify.get("task", {}).get("metrics", [])}
    floats, name, measured = verify["float_vs_program"], gate["name"], gate["measured"]
    if name in metrics:
        stated: list[Any] = [metrics[name]["program"]]
        hold_equal(file, gate.get("float"), "verify.task", metrics[name]["float"], at=f"the float {name} of its gate")
    elif name == "drop":
        stated = [m["float"] - m["program"] for m in metrics.values() if None not in (m["float"], m["program"])]
    else:
        stated = [floats[name]]
    if measured not in stated:
        others = ", ".join(map(str, stated))
        raise ContradictionError(file, f"the gate {name} measured {measured}, elsewhere the report has {others}")


def _check_gate(gate: Mapping[str, Any], file: str) -> None:
    if isinstance(gate["measured"], bool):
        raise ContradictionError(file, f"the gate {gate['name']} measured {gate['measured']!a}, which is no number")
    # what is null in a report was infinite where it passed
    value, limit = math.inf if gate["measured"] is None else float(gate["measured"]), float(gate["limit"])
    margin = value - limit if gate["name"] not in _FROM_ABOVE else limit - value
    if not (margin >= 0 or math.isclose(value, limit, rel_tol=_ROUNDING)) or gate["passed"] is not True:
        raise ContradictionError(file, f"the gate {gate['name']} demands {limit:g}, {value:g} was measured")
