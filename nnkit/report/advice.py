"""What to do next, ranked, from what is known of a build: each with the recipe line to paste where there is one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from nnkit.mixed_precision.tried import listed, recipe_line
from nnkit.report.untried import KEPT_FORMATS, Untried

Weight: TypeAlias = Literal["high", "medium", "low"]
_ORDER: tuple[Weight, ...] = ("high", "medium", "low")

CLIPPED_SHARE = 0.001
"""Clipped values that are worth a word; every layer's share is in the report. Most methods clip a few on purpose."""

UNSEEN_FACTOR = 1.25
"""Values so much larger than any that calibration saw are worth a word; 16-bit ranges have as much headroom."""

_FEW_IMAGES = 16
_MOST_HEADROOM = 16.0
"""The most that a recipe may ask for."""
_FULL = 0.9
_DOUBT = "See whether the network is fed and judged as it was trained."
_AUTO_WITH_A_GATE = "tags: {hp: auto}\nverify: {gates: {cosine: 0.999}}   # the search needs a gate to meet"
_NOTHING_TO_GAIN_DB = 55.0
"""Above it, and with all gates met, nothing that is left of the error is worth a word: 9 bits of every value."""

WORTHWHILE_DB = 3.0
_WEAK_BELOW_DB = 6.0  # a layer that much below the median of all is where accuracy is lost
_NAMED = 3


@dataclass(frozen=True)
class Advice:
    """title: what to do. why: the figures behind it. recipe: lines to paste, empty where no line does it.

    gain: what it would bring, in figures of this run; empty where nothing that was run tells.
    """

    weight: Weight
    title: str
    why: str
    recipe: str = ""
    gain: str = ""

    def as_json(self) -> dict[str, str]:
        """The entry of `advice` in a report."""
        return {"weight": self.weight, "title": self.title, "why": self.why, "gain": self.gain, "recipe": self.recipe}


def advice_for_networks(report: Mapping[str, Any], networks: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """The advice of a deployment, the weightiest first: that of its networks, and what its memory asks for.

    report: the deployment's. networks: the networks' reports by name. Of their own memory nothing is said: it is the
    deployment's that counts. Lines to paste name the recipe that they belong into.
    """
    pieces = []
    for name, own in networks.items():
        about_memory = {each.title for each in _memory(own)}
        for entry in own["advice"]:
            if entry["title"] not in about_memory:
                lines = f"# {own['recipe_file']}\n{entry['recipe']}" if entry["recipe"] else ""
                pieces.append({**entry, "title": f"{name}: {entry['title']}", "recipe": lines})
    pieces += [each.as_json() for each in _memory(report)]
    return sorted(pieces, key=lambda entry: _ORDER.index(entry["weight"]))


def advice_for(report: Mapping[str, Any], untried: Untried) -> list[Advice]:
    """The advice, the weightiest first."""
    pieces = [
        *(Advice("high", _DOUBT, f"{text[:1].upper()}{text[1:]}.") for text in report["doubts"]),
        *_not_proven(report),
        *_accuracy(report, untried),
        *_inputs(report),
        *_memory(report),
        *_gates(report),
    ]
    return sorted(pieces, key=lambda advice: _ORDER.index(advice.weight))


def _not_proven(report: Mapping[str, Any]) -> Iterator[Advice]:
    entries = report["verify"]["program_vs_artifact"]
    for entry in entries:
        if entry["mismatches"]:
            where = entry.get("first_difference", "")
            yield Advice("high", f"Find out why {entry['how']} computes other values.", f"First difference: {where}.")
    skipped = [entry for entry in entries if entry["contract"] == "not_run"]
    for entry in skipped:
        if report["status"] == "unproven":
            yield Advice(
                "high",
                f"Run the artifact on {entry['how']}.",
                f"Nothing has run it yet; {entry['how']}: {entry['reason']}.",
                f"verify: {{require: [{entry['how']}]}}   # a build that it cannot run fails",
            )
        elif "--no-qemu" in entry["reason"]:
            yield Advice("medium", f"Run it on {entry['how']} too, without --no-qemu.", "It was skipped in this run.")
    open_proofs = [layer["name"] for layer in report["layers"] if layer["proof"] == "pinned_unproven"]
    if open_proofs:
        yield Advice(
            "medium",
            "Let nnkit choose the formats of layers whose accumulators could overflow.",
            f"The pinned formats of {_named(open_proofs)} cannot be proven; the layer's `proof_note` has the bits.",
        )


def _accuracy(report: Mapping[str, Any], untried: Untried) -> Iterator[Advice]:
    failed = [gate["name"] for gate in report["verify"]["gates"] if not gate["passed"]]
    weight: Weight = "high" if failed else "low"
    reason = f"Gate {', '.join(failed)} fails. " if failed else ""
    integer = [layer for layer in report["layers"] if not layer["formats"]["output"].startswith(("f", "bf"))]
    distances = report["verify"]["float_vs_program"]
    reached = distances.get("sqnr_db")
    if not integer or (not failed and reached is not None and reached > _NOTHING_TO_GAIN_DB):
        return
    if distances["cosine"] is None and "quantized" not in distances.get("constant_outputs", {}).values():
        return  # nothing was measured, and no precision would change that
    if KEPT_FORMATS in report["quantization_notes"]:
        if failed:
            yield Advice(
                weight, "Give the float network.", f"{reason}The model is quantised already, and stays as it is."
            )
        return
    yield from _sixteen_bits(report, untried, weight, reason)
    if untried.corrections and (failed or not untried.chosen):
        yield Advice(
            weight,
            "Try the corrections that this target offers.",
            f"{reason}Not tried: {', '.join(untried.corrections)}. A correction that does not help is undone.",
            f"calibration: {{corrections: [{', '.join([*untried.tried_corrections, *untried.corrections])}]}}",
        )
    gates = report["verify"]["gates"]
    if untried.sixteen_bits and (failed or not gates):  # with gates that hold the search has nothing to look for
        yield Advice(
            weight,
            "Let nnkit find the layers that need 16 bits.",
            f"{reason}The search takes the fewest layers with which the gates hold.",
            "tags: {hp: auto}" if gates else _AUTO_WITH_A_GATE,
        )
    weak = _weakest(integer)
    if weak and untried.sixteen_bits:
        layer, median = weak
        yield Advice(
            weight,
            f"Look at {layer['name']} first.",
            f"{reason}Alone it has {layer['isolated_sqnr_db']:.1f} dB; half of the layers have {median:.1f} or more.",
            f"tags: {{hp: {listed([layer['name'] if layer['name'] in layer['origins'] else layer['origins'][0]])}}}",
            _cost(layer),
        )
    clipped = [layer for layer in integer if layer.get("clip_rate", 0.0) >= CLIPPED_SHARE]
    if clipped:
        most = max(clipped, key=lambda layer: float(layer["clip_rate"]))
        title, widen = _wider(clipped, report["calibration"]["method"])
        yield Advice(
            "high" if failed else "medium",
            title,
            f"{reason}{_layers(len(clipped))} cut off {CLIPPED_SHARE:.1%} or more of all values, "
            f"{most['name']} {most['clip_rate']:.2%}.",
            widen,
        )


def _wider(clipped: Sequence[Mapping[str, Any]], method: str) -> tuple[str, str]:
    """How layers that clip get wider ranges: in words, and the recipe's line where one does it.

    Ranges by `max` reach all that calibration saw; `headroom` widens those of 16 bits alone.
    """
    if method in ("table", "formats"):
        return "Widen the ranges of layers that clip, in the file that pins them.", ""
    if method != "max":
        return "Widen the ranges of layers that clip.", "calibration: {method: max}"
    wide = [layer for layer in clipped if layer["formats"]["output"].startswith(("s16", "u16")) and "unseen" in layer]
    if not wide:
        return "Calibrate on inputs that reach the values that are cut off.", ""
    needed = math.ceil(100.0 * max(float(layer["unseen"]["factor"]) for layer in wide)) / 100.0
    if not 1.0 < needed <= _MOST_HEADROOM:
        return "Calibrate on inputs that reach the values that are cut off.", ""
    return "Widen the ranges of layers that clip.", f"calibration: {{headroom: {needed:g}}}"


def _sixteen_bits(report: Mapping[str, Any], untried: Untried, weight: Weight, reason: str) -> Iterator[Advice]:
    """The cheapest set of 16-bit layers that the run has measured to be clearly better than the build."""
    built = next((each for each in untried.tried if each.built), None)
    if built is None:
        return
    better = [each for each in untried.tried if each.sqnr_db >= built.sqnr_db + WORTHWHILE_DB]
    if not better:
        return
    best = min(better, key=lambda each: (each.weight_bytes, -each.sqnr_db))
    extra = best.weight_bytes - built.weight_bytes
    cost = f"{extra:,} bytes more of weights" if extra > 0 else "no bytes more of weights"
    origins = {layer["name"]: layer["origins"] for layer in report["layers"]}
    yield Advice(
        weight,
        f"Give 16 bits to {_named([name for name in best.layers if name not in built.layers])}.",
        f"{reason}This run has measured it beside the build.",
        recipe_line(best, report["target"], origins, untried.cpu),
        f"{best.sqnr_db:.1f} dB instead of {built.sqnr_db:.1f} dB, for {cost}",
    )


def _cost(layer: Mapping[str, Any]) -> str:
    size = layer.get("weight_bytes")
    return f"not measured in this run; it costs about {size:,} bytes more of weights" if size else ""


def _weakest(layers: list[Any]) -> tuple[Mapping[str, Any], float] | None:
    measured = [layer for layer in layers if layer.get("isolated_sqnr_db") is not None]
    if not measured:
        return None
    ranked = sorted(measured, key=lambda layer: float(layer["isolated_sqnr_db"]))
    median = float(ranked[len(ranked) // 2]["isolated_sqnr_db"])
    weakest = next((layer for layer in ranked if "hp" not in layer.get("tags", ())), None)
    return (weakest, median) if weakest and weakest["isolated_sqnr_db"] < median - _WEAK_BELOW_DB else None


def _inputs(report: Mapping[str, Any]) -> Iterator[Advice]:
    far = [
        layer
        for layer in report["layers"]
        if layer.get("unseen", {}).get("factor", 0.0) > UNSEEN_FACTOR
        and not layer["formats"]["output"].startswith(("f", "bf"))
    ]
    if far:
        name = report["inputs"][0]["name"]
        most = max(far, key=lambda layer: float(layer["unseen"]["factor"]))
        inputs = list(dict.fromkeys(layer["unseen"]["input"] for layer in far))
        yield Advice(
            "high",
            "Calibrate with more inputs like those that went beyond.",
            f"{_layers(len(far))} met values up to {most['unseen']['factor']:.2f} times as large as calibration saw "
            f"({most['name']} most), on {_named(inputs)}; these themselves are for verification.",
            f"model: {{inputs: {{{name}: {{calibration: {{images: [<as now>, more/*.png]}}}}}}}}",
            _beside_all(report, inputs),
        )
    calibration, kept = report["calibration"], KEPT_FORMATS in report["quantization_notes"]
    if not kept and calibration["method"] not in ("table", "formats") and calibration["images"] < _FEW_IMAGES:
        yield Advice(
            "medium",
            "Calibrate on more inputs.",
            f"Ranges rest on {calibration['images']}; what none of them shows is clipped later.",
        )
    outputs = report["verify"]["float_vs_program"]
    if outputs["seen_by_calibration"] and not kept:
        yield Advice(
            "medium",
            "Verify on inputs that calibration has not seen.",
            f"The ranges come from {outputs['seen_by_calibration']} of the {outputs['inputs']} too, which flatters.",
            "verify: {images: held_out/*.png}",
        )
    if calibration["skipped"]:
        names = [entry["name"] for entry in calibration["skipped"]]
        yield Advice("medium", "Mend the calibration files that were left out.", f"{_named(names)}: see Provenance.")


def _beside_all(report: Mapping[str, Any], inputs: list[str]) -> str:
    """What the inputs that went beyond measure by themselves, where they are among the worst."""
    overall = report["verify"]["float_vs_program"].get("sqnr_db")
    worst = [e for e in report["verify"].get("worst", ()) if e["input"] in inputs and e["sqnr_db"] is not None]
    if overall is None or not worst:
        return ""
    lowest = min(worst, key=lambda entry: float(entry["sqnr_db"]))
    if lowest["sqnr_db"] >= overall:
        return ""
    return f"{lowest['input']} alone has {lowest['sqnr_db']:.1f} dB, all inputs together {overall:.1f} dB"


def _memory(report: Mapping[str, Any]) -> Iterator[Advice]:
    for name, use in report["memory"].items():
        limited = use["capacity_bytes"] and use.get("limited", True)
        full = use["peak_bytes"] / use["capacity_bytes"] if limited else 0.0
        if _FULL < full < 1.0:
            free = use["capacity_bytes"] - use["peak_bytes"]
            yield Advice(
                "low",
                f"Mind {name}: the next model may not fit.",
                f"{full:.1%} of it are in use, {free:,} bytes are free at the peak.",
            )
        if not use["proven_optimal"]:
            yield Advice(
                "low",
                f"A better plan of {name} may exist.",
                "No proof was found that none takes less; the solver of the extra `solver` looks further.",
                gain=f"at most {use['peak_bytes'] - use['lower_bound_bytes']:,} bytes of {name}, as far as its lower "
                "bound",
            )


def _gates(report: Mapping[str, Any]) -> Iterator[Advice]:
    cosine = report["verify"]["float_vs_program"]["cosine"]
    constant = report["verify"]["float_vs_program"].get("constant_outputs")
    if not report["verify"]["gates"] and not constant and cosine is not None and cosine > 0.9:
        noise = 10.0 * max(1.0 - cosine, 1e-6)
        yield Advice(
            "low",
            "Hold later builds to what this one reaches.",
            "The recipe has no gates, so that no loss of accuracy can fail a build.",
            f"verify: {{gates: {{cosine: {1.0 - noise:.4g}}}}}",
        )


def _layers(count: int) -> str:
    return f"{count} layer" if count == 1 else f"{count} layers"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
