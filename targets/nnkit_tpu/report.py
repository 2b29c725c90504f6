"""What the report says of the TPU alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.program import macs
from nnkit.target import Deployment
from nnkit_tpu.artifact_files import read_build
from nnkit_tpu.chips import chip_named
from nnkit_tpu.emit import source_files
from nnkit_tpu.exactness import inexact_reason
from nnkit_tpu.lowered import TpuLowered
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuOp

_LISTED = 8  # disagreements that are listed one by one


def report_details(deployment: Deployment[TpuLowered], options: TpuOptions, folder: Path) -> Mapping[str, Any]:
    """Chip, model, estimated groups with reasons, the groups that were compiled, prediction, contract by layer."""
    build = read_build(folder)
    ops = [op for op in deployment.program.ops if isinstance(op, TpuOp)]
    bounded = {op.name: inexact_reason(op, options.chip) for op in ops if inexact_reason(op, options.chip)}
    by_layer = {op.name: macs(op, deployment.program) for op in ops}
    details: dict[str, Any] = {
        "chip": options.chip,
        "precision": options.precision,
        "sources": source_files(folder),
        "model": build.get("model"),
        "batch": build["batch"],
        "macs": sum(macs(op, deployment.program) for op in deployment.program.ops),
        "layer_milliseconds": layer_milliseconds(options, build["plan"], by_layer) or None,
        "pixels": build["pixels"] or None,
        "not_compiled": build.get("not_compiled"),
        "compiler": build.get("compiler"),
        "model_version": build.get("model_version"),
        "combined": build.get("combined"),
        "plan": build["plan"],
        "layer_groups": build.get("layer_groups"),
        "traced": build.get("traced"),
        "prediction": build.get("prediction"),
        "summary": [
            *_groups(build.get("layer_groups")),
            *_traced(build.get("traced")),
            *_summary(build.get("prediction")),
        ]
        or None,
        "exact_layers": len(ops) - len(bounded),
        "layers_within_a_bound": bounded,
    }
    return {key: value for key, value in details.items() if value is not None}


def layer_milliseconds(options: TpuOptions, plan: Mapping[str, Any], macs_of: Mapping[str, int]) -> dict[str, float]:
    """Estimates of the layers' arithmetic, as the whole's time: cycles at the chip's clock, or where nobody tells
    cycles a lower bound, multiplications at the rate that the maker states. Empty where neither is known.
    """
    chip = chip_named(options.chip)
    if chip.clock_hz is not None:
        return {name: 1e3 * cycles / chip.clock_hz for name, cycles in plan["layer_cycles"].items()}
    if chip.operations_per_second is not None and options.precision == "int8":
        return {name: 2e3 * count / chip.operations_per_second for name, count in macs_of.items()}
    return {}


def _groups(layer_groups: Mapping[str, Any] | None) -> list[str]:
    """Lines where the compiler's own groups do not stand, where none were planned, where the audit is not of all."""
    if layer_groups is None:
        return []
    told = []
    if layer_groups["compiler_search"] != "ended":
        told.append(f"the compiler's search for layer groups: {layer_groups['compiler_search']}")
    if layer_groups["not_planned"]:
        told.append(f"nnkit planned none, as it cannot follow the lowered program: {layer_groups['not_planned']}")
    told += (layer_groups["audit"] or {}).get("not_followed", ())
    return [f"groups   {line}" for line in told]


def _traced(traced: Mapping[str, Any] | None) -> list[str]:
    """A line where there is no model that gives inner values, though one was asked for."""
    reason = (traced or {}).get("not_compiled")
    head = "traced   the model that gives inner values is missing, so that the outputs alone were compared"
    return [f"{head}: {reason}"] if reason else []


def _summary(prediction: Mapping[str, Any] | None) -> list[str]:
    """Lines for people: every layer for which the compiler chose other numbers than predicted."""
    wrong = prediction["disagreements"] if prediction is not None else []
    if prediction is None or not wrong:
        return []
    layers = len({each["layer"] for each in wrong})
    head = f"predict  the compiler chose other numbers than predicted for {layers} of {prediction['layers']} layers:"
    told = [f"         {each['layer']}: {each['what']}" for each in wrong[:_LISTED]]
    more = len(wrong) - _LISTED
    return [head, *told, *([f"         {more} more in report.json, details.prediction"] if more > 0 else [])]
