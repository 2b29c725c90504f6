"""What one family of chips lacks and the compiler aborts on: refused before, all at once."""

from __future__ import annotations

from nnkit.errors import ModelError
from nnkit.program import Program
from nnkit_tpu.compile import CV_CHIPS
from nnkit_tpu.program import TpuOp, TpuPool


def check_program(program: Program, chip: str) -> None:
    """Raises ModelError naming every layer that the chip cannot compute, with the reason."""
    found = [(op.name, _reason(op, chip)) for op in program.ops if isinstance(op, TpuOp)]
    refused = [f"\n  {name}: {reason}" for name, reason in found if reason]
    if refused:
        count = f"{len(refused)} layer{'s' if len(refused) > 1 else ''}"
        raise ModelError(
            f"{count} cannot run on the {chip}:{''.join(refused)}",
            remedy="replace these layers, or choose a bm1684x or bm1688",
        )


def _reason(op: TpuOp, chip: str) -> str:
    if chip not in CV_CHIPS:
        return ""
    match op:
        case TpuPool() if op.function == "average" and op.window.has_padding and not op.count_include_pad:
            return "an average that leaves padding out of the count"
        case _:
            return ""
