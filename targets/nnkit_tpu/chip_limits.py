"""What the compiler would abort on, or make something else of than the recipe says: refused before, all at once."""

from __future__ import annotations

from nnkit.errors import ModelError, RecipeError
from nnkit.program import Program
from nnkit_tpu.compile import CV_CHIPS
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuBinary, TpuDeconv, TpuOp


def check_program(program: Program, chip: str) -> None:
    """Raises ModelError naming every layer that the chip cannot compute, with the reason."""
    ops = [op for op in program.ops if isinstance(op, TpuOp)]
    integer = any(op.mode == "INT8" for op in ops)
    found = [(op.name, _reason(op, chip, integer)) for op in ops]
    refused = [f"\n  {name}: {reason}" for name, reason in found if reason]
    if refused:
        count = f"{len(refused)} layer{'s' if len(refused) > 1 else ''}"
        raise ModelError(
            f"{count} cannot run on the {chip}:{''.join(refused)}",
            remedy="replace these layers, or choose a bm1684x or bm1688",
        )


def check_stored_values(program: Program, options: TpuOptions) -> None:
    """`quant_input` and `quant_output` need INT8 layers at the network's ends: the compiler gives others floats.

    Raises RecipeError naming the layers.
    """
    ops = [op for op in program.ops if isinstance(op, TpuOp) and op.mode != "INT8"]
    readers = [op for op in ops if set(op.inputs) & set(program.inputs)]
    writers = [op for op in ops if op.output in program.outputs]
    for key, asked, found in (
        ("quant_input", options.quant_input, readers),
        ("quant_output", options.quant_output, writers),
    ):
        if asked and found:
            raise RecipeError(
                f"{key}: {', '.join(f'{op.name} runs in {op.mode}' for op in found)}: there are no stored integers",
                where=f"targets.tpu.{key}",
                remedy=f"remove the `hp` tags of these layers, or {key}",
            )


def _reason(op: TpuOp, chip: str, integer: bool) -> str:
    """Why the op is refused, empty where it is not; integer: the network has layers in INT8."""
    if chip not in CV_CHIPS:
        return ""
    match op:
        case TpuBinary() if op.function in ("min", "max") and op.constant is not None and integer:
            return "a minimum or maximum with a constant beside layers in INT8"
        case TpuBinary() if op.function == "div" and op.constant_first:
            return "a number divided by its input"
        case TpuDeconv() if (op.window.dilation_h, op.window.dilation_w) != (1, 1):
            return "a dilated transposed convolution"
        case _:
            return ""
