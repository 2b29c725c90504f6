"""Values that a floating-point format does not hold: infinities of the Program that the float network does not have.

Two infinities are equal and say nothing: neither that values agree nor that they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.program import Float, Program

_LARGEST = {16: "65,504", 32: "3.4e38"}


def refuse_overflow(
    program: Program,
    stored: Mapping[str, NDArray[Any]],
    floats: Mapping[str, NDArray[Any]],
    where: str = "",
) -> None:
    """Raise ModelError naming the first layer that gives what its format does not hold.

    stored: the Program's values by name. floats: the float network's, as far as it has them: an infinity of its own
    (a mask) is none of the format's, and neither is what is computed of it. where: the input.
    """
    own: set[str] = set()
    for op in program.ops:
        form, values = program.tensors[op.output].format, stored.get(op.output)
        if not isinstance(form, Float) or values is None or np.isfinite(values).all():
            continue
        expected = floats.get(op.output)
        if own & set(op.inputs) or (expected is not None and not np.isfinite(expected).all()):
            own.add(op.output)
            continue
        reaches = "" if expected is None else f"; the float network has up to {np.abs(expected).max():,.6g} there"
        raise ModelError(
            f"layer {op.name!r} ({op.kind}) gives what float{form.bits} does not hold, which ends at "
            f"{_LARGEST[form.bits]}{reaches}",
            where=where or op.name,
            remedy="calibrate on inputs that reach as far: layers that need a wider format get it where the chip has "
            "one; otherwise choose another `precision` of the target, or scale the network's values down",
        )
