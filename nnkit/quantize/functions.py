"""Activations of one number that fixed point and affine integers take from a table: their values in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FunctionName: TypeAlias = Literal["Sigmoid", "Tanh", "HardSigmoid", "HardSwish"]

_LEAST_AT: Mapping[FunctionName, float] = MappingProxyType({"HardSwish": -1.5})
"""Where functions that fall before they rise have their minimum."""


@dataclass(frozen=True)
class Function:
    """An operator of ONNX. alpha, beta: of HardSigmoid, max(0, min(1, alpha * x + beta))."""

    name: FunctionName
    alpha: float = 0.2
    beta: float = 0.5

    def image(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest value over low .. high."""
        ends = [low, high]
        if self.name in _LEAST_AT:
            ends.append(min(max(_LEAST_AT[self.name], low), high))
        values = self.values(np.array(ends))
        return float(values.min()), float(values.max())

    def values(self, x: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The function of every number."""
        match self.name:
            case "Sigmoid":
                result = 0.5 + 0.5 * np.tanh(0.5 * x)
            case "Tanh":
                result = np.tanh(x)
            case "HardSigmoid":
                result = np.clip(self.alpha * x + self.beta, 0.0, 1.0)
            case "HardSwish":
                result = x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)
        return np.asarray(result)
