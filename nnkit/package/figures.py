"""Figures of a report that bound or repeat each other: totals and their parts, counts, forms of tensors, optima.

What one figure alone says cannot be checked here; what two of them say must be possible together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from nnkit.package.contradiction import ContradictionError, hold_equal
from nnkit.package.evidence import REPORT, Evidence

_CONTRACTS = ("exact", "bounded", "not_run")
_FORM = re.compile(r"([suf])(\d+)(?:\.(?P<frac>-?\d+)| affine (?P<scale>\S+), zero at (?P<zero>-?\d+))?")
_ROUNDING = 1e-6
Figures: TypeAlias = Mapping[str, Any]


def check_figures(evidence: Evidence) -> None:
    """Raises ContradictionError for the first figures that cannot both be."""
    report, file = evidence.report, evidence.file(REPORT)
    if not evidence.folder and not report["artifact"]:
        raise ContradictionError(file, "it names no file of the artifact")
    for name, use in report["memory"].items():
        least, peak = use["lower_bound_bytes"], use["peak_bytes"]
        if least > peak:
            raise ContradictionError(file, f"{name} cannot take less than {least} bytes, and takes {peak}")
        if least == peak and use["proven_optimal"] is not True:
            raise ContradictionError(file, f"{name} takes what it must, and that is not called proven")
    if evidence.networks:
        return
    for run in report["verify"]["program_vs_artifact"]:
        _check_run(run, file)
    _check_distances(report, file)
    _check_tensors(report, file)
    for rule in report["rewrites"]:
        hold_equal(file, rule["fired"], "its sites", len(rule["sites"]), at=f"how often {rule['name']} fired")
    placements = {name: each["placement"] for each in report["segments"] for name in each["layers"]}
    for layer in report["layers"]:
        said = {placements[origin] for origin in layer["origins"] if origin in placements}
        if said and layer["placement"] not in said:
            raise ContradictionError(
                file, f"{layer['name']!r} is placed on {layer['placement']!r}, and on {min(said)!r} in segments"
            )


def _check_run(run: Figures, file: str) -> None:
    how, contract = run["how"], run["contract"]
    if contract not in _CONTRACTS:
        raise ContradictionError(file, f"{how} kept the contract {contract!a}, which is none")
    counts = [run.get(key, 0) for key in ("values", "inputs", "mismatches")]
    if any(isinstance(count, bool) or not isinstance(count, int) or count < 0 for count in counts):
        raise ContradictionError(file, f"values, inputs and mismatches of {how} are no counts")
    if contract == "not_run" and any(counts):
        raise ContradictionError(file, f"{how} is said not to have run, and compared values")
    if contract == "exact" and run.get("max_difference"):
        raise ContradictionError(file, f"{how} is said to be exact, and differs by {run['max_difference']}")


def _check_distances(report: Figures, file: str) -> None:
    """Whether the distances of all outputs together can come of those of each."""
    floats, worst = report["verify"]["float_vs_program"], report["verify"]["worst"]
    each = floats["by_output"]
    names = sorted(port["name"] for port in report["outputs"])
    hold_equal(file, sorted(each), "its outputs", names, at="verify.float_vs_program.by_output")
    if not 0 <= floats["seen_by_calibration"] <= floats["inputs"]:
        raise ContradictionError(
            file, f"calibration has seen {floats['seen_by_calibration']} of {floats['inputs']} inputs"
        )
    for where, figures in (("all outputs", floats), *each.items(), *((row["input"], row) for row in worst)):
        _check_possible(figures, where, file)
    parts = [figures for name, figures in each.items() if name not in floats.get("constant_outputs", {})]
    if not parts:
        return
    if len(parts) == 1:
        for key in ("cosine", "sqnr_db", "max_abs"):
            _hold_near(file, floats[key], parts[0][key], f"{key} of all outputs", "of its only one")
    largest = max((part["max_abs"] for part in parts if part["max_abs"] is not None), default=None)
    _hold_near(file, floats["max_abs"], largest, "max_abs of all outputs", "of each")
    low, high = (limit((_db(part) for part in parts), default=0.0) for limit in (min, max))
    if not low - _ROUNDING <= _db(floats) <= high + _ROUNDING:
        raise ContradictionError(file, f"sqnr_db of all outputs is {floats['sqnr_db']}, beyond that of each")
    for row in [] if floats.get("constant_outputs") else worst:  # a row's distance has all outputs
        if row["max_abs"] is not None and largest is not None and row["max_abs"] > largest * (1 + _ROUNDING):
            raise ContradictionError(file, f"max_abs of {row['input']!a} is {row['max_abs']}, of all {largest}")


def _db(figures: Figures) -> float:
    """Null stands for a network without any error."""
    return float("inf") if figures["sqnr_db"] is None else float(figures["sqnr_db"])


def _check_possible(figures: Figures, where: str, file: str) -> None:
    for key, low, high in (("cosine", -1.0, 1.0), ("max_abs", 0.0, float("inf")), ("sqnr_db", -1e9, 1e9)):
        value = figures[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and low - _ROUNDING <= value <= high + _ROUNDING):
            raise ContradictionError(file, f"{key} of {where!a} is {value!a}, which none can be")


def _hold_near(file: str, value: float | None, other: float | None, at: str, whose: str) -> None:
    """Raises ContradictionError where two figures of one thing differ by more than rounding."""
    far = value is not None and other is not None and abs(value - other) > _ROUNDING * max(abs(value), abs(other))
    if (value is None) != (other is None) or far:
        raise ContradictionError(file, f"{at} is {value}, and {other} {whose}")


def _check_tensors(report: Figures, file: str) -> None:
    """Whether layers read what inputs and layers before them write, in the form in which that was written."""
    ports: Sequence[Figures] = report["inputs"]
    for port in (*ports, *report["outputs"]):
        form = _FORM.match(port["format"])
        if form is not None:
            said, written = _form_in_figures(port), _form_in_words(form)
            at = f"the form of {port['name']!r}"
            written = {key: value for key, value in written.items() if key in said}
            hold_equal(file, said, f"its format {port['format']}", written, at=at)
        if "low" in port:
            most = (1 << port["bits"]) - 1 >> port["signed"]
            least = -most - 1 if port["signed"] else 0
            if not least <= port["low"] <= port["high"] <= most:
                reaches = f"{port['name']!r} holds {port['low']} to {port['high']}"
                raise ContradictionError(file, f"{reaches}, its format {port['format']} holds {least} to {most}")
    forms = {port["name"]: port["format"] for port in ports}
    for layer in report["layers"]:
        for number, tensor in enumerate(layer["inputs"]):
            form_read = layer["formats"].get(f"input{number}")  # some do not say it
            if tensor not in forms:
                raise ContradictionError(file, f"{layer['name']!r} reads {tensor!r}, which nothing before it writes")
            if form_read is not None:
                at = f"the format of {tensor!r} as {layer['name']!r} reads it"
                hold_equal(file, form_read, "where it is written", forms[tensor], at=at)
        forms[layer["output"]] = layer["formats"]["output"]
    for port in report["outputs"]:
        if port["name"] not in forms:
            raise ContradictionError(file, f"nothing writes the output {port['name']!r}")
        hold_equal(file, port["format"], "its layer", forms[port["name"]], at=f"the format of {port['name']!r}")


def _form_in_figures(port: Figures) -> dict[str, Any]:
    said = {key: port[key] for key in ("bits", "signed", "frac") if key in port}
    if "zero_point" in port:
        said |= {"scale": [f"{each:.6g}" for each in port["scale"]], "zero_point": port["zero_point"]}
    return said


def _form_in_words(form: re.Match[str]) -> dict[str, Any]:
    """What the text of a format says of bits, fraction, scale and zero."""
    written: dict[str, Any] = {"bits": int(form[2]), "signed": form[1] != "u"}
    if form["frac"] is not None:
        written["frac"] = int(form["frac"])
    if form["scale"] is not None:
        written |= {"scale": [form["scale"]], "zero_point": [int(form["zero"])]}
    return written
