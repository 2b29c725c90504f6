"""One row: a network of one exporter through the stages of one target, as `nnkit run` goes through them."""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.table import Row
from benchmarks.zoo.exported import Exported
from nnkit import stages
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import DoesNotFitError, ModelError
from nnkit.pipeline import run
from nnkit.report.progress import Progress
from nnkit.stages import Build, Settled

TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "gap8": "{precision: int16, memory: {l2: 64MiB, larger_chip: true, l3: 512MiB}}",
        "nnie": "{chip: hi3516cv500, outside_limits: custom, join_segments: any}",
        "tpu": "{chip: bm1684x, layer_group: quick}",
        "onnx_qdq": "{}",
        "ansi_c": "{precision: float32}",
    }
)
"""Options by target. Memory is ample: what counts here is which networks a target takes, not which fit."""


def row(name: str, exporter: str, target: str, exported: Exported | str, out: Path, *, compile_tpu: bool) -> Row:
    """The row of a network. exported: the files, or why the exporter made none. compile_tpu: otherwise a network for
    the TPU is quantised and compared with float, but not compiled."""
    began = time.perf_counter()
    result: dict[str, Any] = {"mismatches": None, "sqnr_db": None, "reason": ""}
    if isinstance(exported, str):
        result |= {"status": "refused", "reason": f"not exported: {exported}"}
    else:
        try:
            whole = target != "tpu" or compile_tpu
            build = _build(name, target, exported, emulate=target == "tpu")
            result |= _verified(build, out) if whole else _quantised(build)
        except (ModelError, DoesNotFitError) as error:
            result |= {"status": "refused", "reason": str(error)}
        except Exception as error:  # whatever it is, it is a row of the table
            place = traceback.extract_tb(error.__traceback__)[-1]
            result |= {
                "status": "failed",
                "reason": f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}: {error}",
            }
    first = {"network": name, "exporter": exporter, "target": target, "status": result.pop("status")}
    return {**first, **result, "seconds": round(time.perf_counter() - began, 1)}


def _build(name: str, target: str, exported: Exported, *, emulate: bool) -> Build:
    """emulate: whether the vendor's chip model, or an emulator, is to run the artifact."""
    folder, sections, verified = exported.path.parent, [], []
    for key in exported.inputs:
        files = json.dumps(str(folder / f"{key}_*.npy"))
        sections.append(f"    {key}: {{calibration: {{images: {files}}}}}\n")
        verified.append(f"{key}: {json.dumps(str(folder / f'verify_{key}_*.npy'))}")
    recipe = folder / f"{target}.yaml"
    recipe.write_text(
        f"nnkit: 1\nname: {name}\nmodel:\n  path: {json.dumps(str(exported.path))}\n  inputs:\n{''.join(sections)}"
        f"targets:\n  {target}: {TARGETS[target]}\nverify: {{images: {{{', '.join(verified)}}}}}\n",
        encoding="utf-8",
    )
    return builds(load(recipe), [], Progress(quiet=True), Switches(cache=False, emulate=emulate))[0]


def _verified(build: Build, out: Path) -> dict[str, Any]:
    """The whole run; emulators and the vendor's tools apart, its artifact is run and compared."""
    report: Any = run(build, out).report
    compared = [entry for entry in report["verify"]["program_vs_artifact"] if entry["contract"] != "not_run"]
    mismatches = sum(entry["mismatches"] for entry in compared)
    sqnr = report["verify"]["float_vs_program"]["sqnr_db"]
    first = next((entry["first_difference"] for entry in compared if entry["mismatches"]), "")
    return {
        "status": "ok" if report["status"] == "ok" else "failed",
        "mismatches": mismatches if compared else None,
        "sqnr_db": None if sqnr is None else round(sqnr, 1),
        "reason": str(first),
    }


def _quantised(build: Build) -> dict[str, Any]:
    """Up to the Program, and that against float."""
    from nnkit.inputs import verification_samples
    from nnkit.verify.float_vs_program import compare_with_float

    imported = stages.import_model(build)
    restructured = stages.restructure(build, imported)
    lowered = stages.lower(build, restructured)
    statistics = stages.calibrate(build, restructured)
    program = stages.quantize(build, Settled(lowered), statistics)
    samples = verification_samples(build.recipe, restructured.model)
    outputs = compare_with_float(restructured.reference, restructured.model, program, samples).outputs
    sqnr = outputs.sqnr_db
    return {
        "status": "ok",
        "sqnr_db": round(sqnr, 1) if math.isfinite(sqnr) else None,
        "reason": "quantised and compared with float, not compiled",
    }
