"""What the layers of the NNIE cost: multiply-accumulates, weight bytes, bytes of feature maps."""

from __future__ import annotations

from nnkit.program import Program
from nnkit_nnie.gfpq.ops import NnieOp, NnieWeighted

_HIGH_BITS = 16


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


def reads_by_bits(op: NnieOp) -> bool:
    """Whether 8 or 16 bits make a difference to what an op computes: whether it reads anything through GFPQ."""
    return any(form is not None for form in op.reads)


def bits_of(op: NnieOp) -> int:
    """Bits in which an op reads its inputs."""
    return max((form.bits for form in op.reads if form is not None), default=8)
