"""Layers with weights in float64: convolution, its transpose, the fully connected layer, and what runs in place.

Arrays have a batch axis; weights are OIHW (IOHW for the transpose), as ONNX has them. Large images are taken in
bands of rows, so that the gathered windows stay below `_BAND_BYTES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Window
from nnkit.program.convolution import convolve_transposed, convolve_windows
from nnkit.program.window import padded, taps
from nnkit_nnie.gfpq.activation_tables import sigmoid, tanh

Array: TypeAlias = NDArray[np.float64]
_BAND_BYTES = 64 << 20


def convolution(x: Array, weight: Array, bias: Array | None, window: Window, groups: int) -> Array:
    """[N, C, H, W] -> [N, O, OH, OW]."""
    views = taps(padded(x, window, 0.0), window)
    out_h, out_w = views.shape[2:4]
    result = np.empty((x.shape[0], weight.shape[0], out_h, out_w))
    row_bytes = weight.shape[1] * groups * window.kernel_h * window.kernel_w * out_w * 8
    band = max(1, _BAND_BYTES // max(1, row_bytes))
    for index in range(x.shape[0]):
        for first in range(0, out_h, band):
            rows = slice(first, min(first + band, out_h))
            result[index, :, rows] = convolve_windows(views[index : index + 1, :, rows], weight, groups)[0]
    if bias is not None:
        result += bias.reshape(1, -1, 1, 1)
    return result


def transposed_convolution(
    x: Array, weight: Array, bias: Array | None, window: Window, groups: int, size: tuple[int, int]
) -> Array:
    """[N, C, H, W] -> [N, O, *size]: every input value adds its window to the output."""
    sums = convolve_transposed(x, weight, window, groups, size)
    return np.asarray(sums if bias is None else sums + bias.reshape(1, -1, 1, 1))


ActivationKind: TypeAlias = Literal["relu", "leaky", "prelu", "sigmoid", "tanh", "abs", "softplus", "elu"]


@dataclass(frozen=True, eq=False)
class InPlaceActivation:
    """What happens to a layer's result before it is stored. slopes: [1] or [C], for `leaky`, `prelu` and `elu`."""

    kind: ActivationKind
    slopes: NDArray[Any]


def activate(x: Array, activation: InPlaceActivation) -> Array:
    """The activation of [N, C, ...]."""
    slopes = activation.slopes.astype(np.float64).reshape(1, -1, *[1] * (x.ndim - 2))
    match activation.kind:
        case "relu":
            return np.maximum(x, 0.0)
        case "leaky" | "prelu":
            return np.where(x < 0.0, x * slopes, x)
        case "sigmoid":
            return sigmoid(x)
        case "tanh":
            return tanh(x)
        case "abs":
            return np.asarray(np.abs(x))
        case "softplus":
            return np.asarray(np.logaddexp(0.0, x))
        case "elu":
            return np.where(x < 0.0, slopes * np.expm1(np.minimum(x, 0.0)), x)
