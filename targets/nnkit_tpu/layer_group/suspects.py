"""Which layers a failure of the compiler's code generator can be about.

An assertion of a `nodechip_` function names neither the layer nor a remedy. The function's name begins with the kind
of layer that it makes code for, its path says whether within a layer group or outside, and the final program has the
layers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nnkit_tpu.layer_group.final_program import FinalOp
from nnkit_tpu.toolchain.run import CompilerError

_ASSERTED = re.compile(r"^(?:\[\d+\])?(?P<path>\S+):\d+: nodechip_(?P<kind>[a-z]+)(?P<rest>\w*): Assertion ", re.M)
_MOST = 6
_SHORTEST = 4  # letters of a kind that tell it from others
_SIXTEEN_BITS = "tag {} `hp`: in 16 bits other code computes such layers"


def with_suspects(error: CompilerError, ops: Sequence[FinalOp], lone: Sequence[str] = ()) -> CompilerError:
    """The error with the layers that it can be about as its place, and a remedy where there is one.

    It is as it was where it names a layer, or where none is known.

    ops: of the final program. lone: convolutions that are known not to compile where they are.
    """
    suspects = [op for op in ops if op.name in lone] or _of_the_kind(error.log, ops)
    if error.where or error.timed_out or not suspects:
        return error
    names = [op.name for op in suspects]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    where = f"{'' if len(names) == 1 else 'one of '}{', '.join(names[:_MOST])}{more}"
    integers = all(op.is_integer for op in suspects)
    advice = _SIXTEEN_BITS.format("it" if len(names) == 1 else "them") if integers else error.advice
    return error.at(where, advice)


def _of_the_kind(log: str, ops: Sequence[FinalOp]) -> list[FinalOp]:
    """The layers of the kind that the first function with a failed assertion makes code for."""
    match = _ASSERTED.search(log)
    if match is None or len(match["kind"]) < _SHORTEST:
        return []
    of_kind = [op for op in ops if op.kind.lower().startswith(match["kind"])]
    if "int8" in match["rest"] or "quant" in match["rest"]:
        of_kind = [op for op in of_kind if op.is_integer]
    if "global" in match["path"]:
        of_kind = [op for op in of_kind if not op.in_group]
    return of_kind
