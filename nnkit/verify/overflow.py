"""Values that a floating-point format does not hold: infinities of the Program that the float network does not have.

Two infinities are equal and say nothing: neither that values agree nor that they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.program import Float, OpBase, Program

_LARGEST = {16: "65,504", 32: "3.4e38"}


def refuse_overflow(
    program: Program,
    stored: Mapping[str, NDArray[Any]],
    floats: Mapping[str, NDArray[Any]],
    where: str = "",
) -> None:
    """Raise ModelError naming the first layer that gives what its format does not hold, or divides by a rounded 0.

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
        zeros = _rounded_to_zero(program, op, ~np.isfinite(values), stored, floats)
        if zeros:
            layers = ", ".join(zeros)
            raise ModelError(
                f"layer {op.name!r} ({op.kind}) gives no finite number where {zeros[-1]!r} is rounded to 0, "
                "which it is not in the float network",
                where=where or op.name,
                remedy=f"let a CPU beside the chip compute what is rounded, `tags: {{cpu: [{layers}]}}`; or choose "
                "another `precision` of the target",
            )
        reaches = "" if expected is None else f"; the float network has up to {np.abs(expected).max():,.6g} there"
        raise ModelError(
            f"layer {op.name!r} ({op.kind}) gives what float{form.bits} does not hold, which ends at "
            f"{_LARGEST[form.bits]}{reaches}",
            where=where or op.name,
            remedy="calibrate on inputs that reach as far: layers that need a wider format get it where the chip has "
            "one; otherwise choose another `precision` of the target, or scale the network's values down",
        )


def _rounded_to_zero(
    program: Program,
    op: OpBase,
    at: NDArray[np.bool_],
    stored: Mapping[str, NDArray[Any]],
    floats: Mapping[str, NDArray[Any]],
) -> list[str]:
    """Layers, in order, whose 0 is what a layer divides by at the places `at`, and not 0 in the float network.

    The last gives the smallest of the layer's inputs that are 0 at all of these places. Empty where none is.
    """

    def lost(name: str) -> NDArray[np.bool_]:
        expected = floats[name].reshape(stored[name].shape)
        rounded: NDArray[np.bool_] = np.logical_and(stored[name] == 0, expected != 0)
        return rounded

    known = {name for name in stored.keys() & floats.keys() if stored[name].size == floats[name].size}
    makers = {each.output: each for each in program.ops}
    inputs = {name: lost(name) for name in op.inputs if name in known and stored[name].ndim == at.ndim}
    covering = [name for name, zeros in inputs.items() if np.broadcast_to(zeros, at.shape)[at].all()]
    layers: list[str] = []
    name = min(covering, key=lambda each: inputs[each].size, default=None)
    while name is not None and name in makers:
        layers.insert(0, makers[name].name)
        zeros = lost(name)
        before = (each for each in makers[name].inputs if each in known and stored[each].shape == zeros.shape)
        name = next((each for each in before if lost(each)[zeros].all()), None)
    return layers
