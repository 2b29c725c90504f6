"""What the report says of the TPU alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.target import Deployment
from nnkit_tpu.emit import read_build, source_files
from nnkit_tpu.exactness import inexact_reason
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuOp


def report_details(deployment: Deployment, options: TpuOptions, folder: Path) -> Mapping[str, Any]:
    """Chip, model, plan with reasons and proof, the compiler's choice beside ours, prediction, contract by layer."""
    build = read_build(folder)
    ops = [op for op in deployment.program.ops if isinstance(op, TpuOp)]
    bounded = {op.name: inexact_reason(op, options.chip) for op in ops if inexact_reason(op, options.chip)}
    details: dict[str, Any] = {
        "chip": options.chip,
        "precision": options.precision,
        "sources": source_files(folder),
        "model": build.get("model"),
        "pixels": build["pixels"] or None,
        "not_compiled": build.get("not_compiled"),
        "compiler": build.get("compiler"),
        "plan": build["plan"],
        "layer_groups": build.get("layer_groups"),
        "prediction": build.get("prediction"),
        "exact_layers": len(ops) - len(bounded),
        "layers_within_a_bound": bounded,
    }
    return {key: value for key, value in details.items() if value is not None}
