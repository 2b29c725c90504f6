"""The split network, run as it will be on the device: STN, warp, NET."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.stn.split import StnSplit

Inputs: TypeAlias = Mapping[str, NDArray[Any]]
StnRun: TypeAlias = Callable[[Inputs], NDArray[Any]]
"""The STN's inputs of one sample by name -> its matrix in real units, of any shape with 8 or 9 values."""


def float_stn(split: StnSplit) -> StnRun:
    """The STN in float32."""
    session = FloatSession(split.stn)
    return lambda inputs: session.run(inputs)[split.matrix]


def warped_image(split: StnSplit, image: NDArray[Any], matrix: NDArray[Any]) -> NDArray[np.float32]:
    """`image` [1, C, H, W] as the CPU's warp gives it to NET, [1, C, out_h, out_w]."""
    values = np.asarray(matrix, np.float32).reshape(-1)
    return split.warp.run(np.asarray(image, np.float32), values)[0]


def net_inputs(split: StnSplit, inputs: Inputs, stn: StnRun) -> dict[str, NDArray[np.float32]]:
    """NET's inputs of one sample: the warped image, and the whole network's other inputs that NET reads."""
    matrix = stn({spec.name: inputs[spec.name] for spec in split.stn.inputs})
    warped = warped_image(split, inputs[split.image], matrix)
    return {
        spec.name: warped if spec.name == split.warped else np.asarray(inputs[spec.name], np.float32)
        for spec in split.net.inputs
    }


def run_split(split: StnSplit, inputs: Inputs, stn: StnRun | None = None) -> dict[str, NDArray[np.float32]]:
    """The outputs of STN, warp and NET one after another, of one sample of the unsplit network.

    stn: computes the matrix; None takes the STN in float32.
    """
    return FloatSession(split.net).run(net_inputs(split, inputs, stn or float_stn(split)))
