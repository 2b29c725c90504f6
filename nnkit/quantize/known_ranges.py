"""Ranges that follow from what a layer is, not from what calibration saw, and the formats that hold them.

A sigmoid that no calibration input moved would otherwise get a format in which it cannot move. LiteRT has the same
(its quantisation specification): steps of 1/256 from 0 to 1, of 1/128 from -1 to 1, of 16/256 from -16 to 0; 16 bits,
which are signed there, have 1/32768, and no LogSoftmax. PyTorch has HardSigmoid as Sigmoid.
"""

from __future__ import annotations

from nnkit.program.formats import Affine
from nnkit.quantize.float_program import FloatFunction, FloatLogSoftmax, FloatOp, FloatSoftmax

_OF_FUNCTIONS = {"Sigmoid": (0.0, 1.0), "HardSigmoid": (0.0, 1.0), "Tanh": (-1.0, 1.0)}
_LOG_SOFTMAX = (-16.0, 0.0)


def known_range(layer: FloatOp, bits: int) -> tuple[float, float] | None:
    """The range of a layer's output in so many bits; its top may be cut by one step. None: calibration tells."""
    match layer:
        case FloatSoftmax():
            return 0.0, 1.0
        case FloatLogSoftmax():
            return _LOG_SOFTMAX if bits == 8 else None
        case FloatFunction():
            return _OF_FUNCTIONS.get(layer.function.name)
    return None


def known_format(layer: FloatOp, bits: int, *, symmetric: bool) -> Affine | None:
    """The affine format of that range: unsigned, or signed around zero."""
    reach = known_range(layer, bits)
    if reach is None:
        return None
    low, high = reach
    if symmetric:
        return Affine(bits, (max(-low, high) / (1 << (bits - 1)),), (0,), signed=True)
    scale = (high - low) / (1 << bits)
    return Affine(bits, (scale,), (min(round(-low / scale), (1 << bits) - 1),))
