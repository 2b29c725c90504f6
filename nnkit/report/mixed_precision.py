"""The report's `mixed_precision`: which layers `hp: auto` put into 16 bits, why those, and what else there was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnkit.mixed_precision.budget import pareto_by_cost, sensitivity
from nnkit.mixed_precision.diagnosis import Diagnosis
from nnkit.mixed_precision.search import SearchResult, Trial, pareto
from nnkit.verify.gates import limit_in_words

if TYPE_CHECKING:
    from nnkit.samples import Sample


def gates_in_words(limits: Mapping[str, float]) -> str:
    """`cosine at least 0.995, max_abs at most 0.1`."""
    return ", ".join(f"{name} {limit_in_words(name, limit)}" for name, limit in limits.items())


def search_report(
    diagnosis: Diagnosis,
    result: SearchResult,
    samples: Mapping[str, Sequence[Sample]],
    limits: Mapping[str, float],
) -> dict[str, Any]:
    """A search that found a set, as JSON data; `docs/accuracy.md` says how to read it."""
    chosen = result.chosen or ()
    costs = {layer.name: layer for layer in diagnosis.layers}
    without = dict(result.needed)
    return {
        "reason": _reason(diagnosis, result, limits),
        "certificate": result.certificate,
        "gates": dict(limits),
        "samples": {name: len(given) for name, given in samples.items()},
        "candidates": len(diagnosis.layers),
        "sets_tried": len(result.trials),
        "smaller_sets": result.smaller_sets,
        "chosen": [
            {
                "name": name,
                "value": costs[name].value,
                "extra_weight_bytes": costs[name].weight_values,
                "macs": costs[name].macs,
                "without": _numbers(without[name]),
                "reason": f"without it: {without[name].failure or _decibels(without[name])}",
            }
            for name in chosen
        ],
        "pareto": [
            {
                "layers": list(_in_order(diagnosis, trial)),
                "extra_weight_bytes": sum(costs[name].weight_values for name in trial.layers),
                **_numbers(trial),
                "passed": trial.passed,
                "chosen": trial.layers == frozenset(chosen),
            }
            for trial in _listed(diagnosis, result)
        ],
        "layers": _layer_rows(diagnosis, result, samples),
    }


def _reason(diagnosis: Diagnosis, result: SearchResult, limits: Mapping[str, float]) -> str:
    gates = gates_in_words(limits)
    chosen = result.chosen or ()
    if not chosen and result.certificate == "budget":
        return "no layer in 16 bits that the budget can pay makes the network more accurate"
    if not chosen:
        return f"8 bits pass the gates ({gates}) in every layer: none needs 16"
    total, count = len(diagnosis.layers), len(chosen)
    if result.certificate == "budget":
        reached = _decibels(result.of(frozenset(chosen)))
        extra = sum(layer.weight_values for layer in diagnosis.layers if layer.name in chosen)
        return (
            f"{count} of {total} layers in 16 bits are the most accurate of {len(result.trials)} sets tried within "
            f"the budget: {reached}, {extra:,} bytes more of weights"
        )
    layers = f"with {count} of {total} layers in 16 bits the gates pass ({gates})"
    if result.certificate == "minimum":
        return f"{layers}; every smaller set was tried and fails"
    return (
        f"{layers}; each of them is needed: without it a gate fails. "
        f"Not all {result.smaller_sets:,} smaller sets were tried"
    )


def _listed(diagnosis: Diagnosis, result: SearchResult) -> tuple[Trial, ...]:
    if result.certificate == "budget":
        return pareto_by_cost(result.trials, diagnosis.candidates)
    return pareto(result.trials, diagnosis.candidates)


def _decibels(trial: Trial) -> str:
    return f"{trial.sqnr_db:.1f} dB on the calibration images"


def _layer_rows(
    diagnosis: Diagnosis, result: SearchResult, samples: Mapping[str, Sequence[Sample]]
) -> list[dict[str, Any]]:
    """One row a candidate: what 8 bits do to it, on each sample set, and what 16 bits would gain."""
    sets = {name: diagnosis.by_layer(given) for name, given in samples.items()}
    first = next(iter(samples))
    trials = {trial.layers: trial for trial in result.trials}
    alone = {layer.name: trials.get(frozenset({layer.name})) for layer in diagnosis.layers}
    everything = frozenset(layer.name for layer in diagnosis.layers)
    isolated: dict[str, float] = {}
    if result.chosen:
        reference = diagnosis.reference(samples[first])
        for layer in diagnosis.layers:
            rest = everything - {layer.name}
            known = trials.get(rest)
            isolated[layer.name] = (
                diagnosis.distance(rest, samples[first], reference).sqnr_db if known is None else known.sqnr_db
            )
    candidates = {candidate.name: candidate for candidate in diagnosis.candidates}
    ranked = sorted((t.noise, name) for name, t in alone.items() if t is not None)
    ranks = {name: place for place, (_, name) in enumerate(ranked, start=1)}
    rows = []
    for layer in diagnosis.layers:
        row: dict[str, Any] = {
            "name": layer.name,
            "macs": layer.macs,
            "extra_weight_bytes": layer.weight_values,
            "cumulative_sqnr_db": {name: _finite(errors[layer.name].cumulative_db) for name, errors in sets.items()},
            "clip_rate": {name: errors[layer.name].clip_rate for name, errors in sets.items()},
        }
        trial = alone[layer.name]
        if trial is not None:
            row["alone_in_16_bits_sqnr_db"] = _finite(trial.sqnr_db)
            row["rank"] = ranks[layer.name]
            removed = sensitivity(candidates[layer.name], trials[frozenset()], trial)
            row["noise_removed"] = removed.removed
            row["noise_removed_per_kib"] = _finite(removed.per_cost * 1024) if removed.cost else None
        if layer.name in isolated:
            row["alone_in_8_bits_sqnr_db"] = _finite(isolated[layer.name])
        rows.append(row)
    return rows


def _numbers(trial: Trial) -> dict[str, float | None]:
    return {
        "cosine": _finite(trial.cosine),
        "sqnr_db": _finite(trial.sqnr_db),
        "max_abs": _finite(trial.max_abs),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _in_order(diagnosis: Diagnosis, trial: Trial) -> list[str]:
    return [layer.name for layer in diagnosis.layers if layer.name in trial.layers]
