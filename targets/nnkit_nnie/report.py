"""What the report says of an nnie build alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.program import Program
from nnkit.target import Deployment
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.emit import read_build_file
from nnkit_nnie.ops import NnieOp, NnieWeighted
from nnkit_nnie.options import NnieOptions

_HIGH_BITS = 16


def report_details(deployment: Deployment, options: NnieOptions, folder: Path) -> Mapping[str, Any]:
    """JSON data: chip, segments, cost, mapper, notes."""
    chip = CHIPS[options.chip]
    build = read_build_file(folder)
    program = deployment.program
    compiled = build["compiled"]
    return {
        "chip": chip.title,
        "nnie": chip.generation,
        "compile_mode": options.compile_mode,
        "segments": [
            {"runs_on": "nnie" if each.placement == "npu" else "cpu", "layers": len(each.layers)}
            for each in deployment.segments
        ],
        "cost": cost_of(program),
        "mapper": compiled if compiled is not None else {"status": build["not_compiled"]},
        "notes": build["notes"],
    }


def cost_of(program: Program) -> dict[str, int]:
    """What the NNIE's layers cost: multiply-accumulates, weight bytes and bytes of feature maps read, by precision.

    A layer in 16 bits reads twice the bytes of weights and feature maps.
    """
    cost = {
        "macs": 0,
        "macs_16_bit": 0,
        "weight_bytes": 0,
        "input_bytes": 0,
    }
    for op in program.ops:
        if isinstance(op, NnieOp) and op.placement == "npu":
            bits = bits_of(op)
            macs = op.multiply_accumulates(program.tensors)
            cost["macs"] += macs
            cost["macs_16_bit"] += macs if bits == _HIGH_BITS else 0
            cost["weight_bytes"] += op.weight.size * bits // 8 if isinstance(op, NnieWeighted) else 0
            cost["input_bytes"] += sum(program.tensors[name].elements for name in op.inputs) * bits // 8
    return cost


def bits_of(op: NnieOp) -> int:
    """Bits in which an op reads its inputs."""
    if isinstance(op, NnieWeighted):
        return op.read_as.bits
    read = getattr(op, "read_as", ())
    return max((form.bits for form in read if form is not None), default=8)
