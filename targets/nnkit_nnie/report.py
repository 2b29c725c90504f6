"""What the report says of an nnie build alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.target import Deployment
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.emit import read_build_file
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.precision import precision_table
from nnkit_nnie.quantize import input_storage
from nnkit_nnie.report_cost import cost_of
from nnkit_nnie.segments import Network

_TABLE_SAMPLES = 8


def report_details(deployment: Deployment, network: Network, options: NnieOptions, folder: Path) -> Mapping[str, Any]:
    """JSON data: chip, segments, cost, the usual choices of precision, mapper, notes."""
    chip = CHIPS[options.chip]
    build = read_build_file(folder)
    program = deployment.program
    compiled = build["compiled"]
    formats = {name: input_storage(program, name) for name in program.inputs}
    return {
        "chip": chip.title,
        "nnie": chip.generation,
        "compile_mode": options.compile_mode,
        "segments": [
            {"runs_on": "nnie" if each.placement == "npu" else "cpu", "layers": len(each.layers)}
            for each in deployment.segments
        ],
        "cost": cost_of(program),
        "precision": precision_table(network, deployment.statistics, formats, deployment.samples(_TABLE_SAMPLES)),
        "mapper": compiled if compiled is not None else {"status": build["not_compiled"]},
        "notes": build["notes"],
    }
