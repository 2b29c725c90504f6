"""Whole builds of small networks for the TPU, and what their reports refute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from nnkit.api.preparing import Switches, builds, load
from nnkit.graph import Model
from nnkit.pipeline import run
from nnkit.report.progress import Progress


def built(
    model: Model,
    options: str,
    folder: Path,
    *,
    numbers: int = 0,
    largest: float | None = None,
    hp: Sequence[str] = (),
    corrections: Sequence[str] = (),
    method: str = "max",
) -> Mapping[str, Any]:
    """The report of a build of the network from random inputs.

    numbers: whole ones, below this. largest: the first of each is this, and no other is farther from zero.
    hp: layers in floating point. corrections, method: of the calibration.
    """
    random = np.random.default_rng(8)
    inputs, verified = "", []
    onnx.save(model.proto(), folder / "net.onnx")
    for spec in model.inputs:
        for index in range(3):
            values = random.integers(0, numbers, spec.shape) if numbers else random.normal(0, 1, spec.shape)
            if largest is not None:
                values = np.clip(values, -largest, largest)
                values.flat[0] = largest
            np.save(folder / f"{spec.name}_{index}.npy", values.astype(np.float32))
        inputs += f"    {spec.name}: {{calibration: {{images: {spec.name}_*.npy}}}}\n"
        verified.append(f"{spec.name}: {spec.name}_2.npy")
    corrected = ", ".join(corrections)
    (folder / "recipe.yaml").write_text(
        f"nnkit: 1\nname: net\nmodel:\n  path: net.onnx\n  inputs:\n{inputs}"
        f"targets:\n  tpu: {{{options}, layer_group: quick}}\n"
        f"calibration: {{method: {method}, corrections: [{corrected}]}}\n"
        f"verify: {{images: {{{', '.join(verified)}}}}}\ntags: {{hp: [{', '.join(hp)}]}}\n",
        encoding="utf-8",
    )
    build = builds(load(folder / "recipe.yaml"), [], Progress(quiet=True), Switches(cache=False))[0]
    report: Any = run(build, folder / "out").report
    return report


def refuted(report: Mapping[str, Any]) -> Sequence[str]:
    """What the chip model gave otherwise, and what the compiler chose otherwise than predicted."""
    compared = report["verify"]["program_vs_artifact"]
    assert compared
    assert all(entry["values"] for entry in compared)
    predicted = report["details"].get("prediction", {"disagreements": []})
    return [entry["first_difference"] for entry in compared if entry["mismatches"]] + predicted["disagreements"]
