"""Activations of one number that fixed point and affine integers take from a table: their values in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FunctionName: TypeAlias = Literal[
    "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Gelu", "Erf", "Softplus", "Softsign", "Mish", "Elu",
    "Abs", "Sign", "Sqrt", "Exp", "Log", "Reciprocal", "Pow",
]  # fmt: skip

STEEP: frozenset[FunctionName] = frozenset({"Exp", "Log", "Reciprocal", "Pow"})
"""Functions that leave any range: their results' ranges are calibrated, and values beyond are clipped."""
_LEAST_AT: Mapping[FunctionName, float] = MappingProxyType(
    {"HardSwish": -1.5, "Gelu": -0.7517915241, "Mish": -1.1924311, "Abs": 0.0}
)
"""Where functions that fall before they rise have their minimum."""
_ROOT_OF_2_BY_PI = 0.7978845608028654  # sqrt(2 / pi)


@dataclass(frozen=True)
class Function:
    """An operator of ONNX.

    alpha, beta: of HardSigmoid, max(0, min(1, alpha * x + beta)); alpha of Elu; the exponent of Pow; of Gelu 1 where
    it is approximated by tanh.
    """

    name: FunctionName
    alpha: float = 0.2
    beta: float = 0.5

    @property
    def parameters(self) -> tuple[float, ...]:
        """Those of alpha and beta that the function has."""
        if self.name == "HardSigmoid":
            return self.alpha, self.beta
        return (self.alpha,) if self.name in ("Elu", "Pow", "Gelu") else ()

    def image(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest value over low .. high."""
        ends = [low, high]
        if self.name in _LEAST_AT:
            ends.append(min(max(_LEAST_AT[self.name], low), high))
        values = self.values(np.array(ends))
        return float(values.min()), float(values.max())

    def values(self, x: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The function of every number; infinite at a pole, and of what has no value (a root of -1) the one of 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return self._values(np.asarray(x, np.float64))

    def _values(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        match self.name:
            case "Sigmoid":
                return 0.5 + 0.5 * np.tanh(0.5 * x)
            case "Tanh":
                return np.tanh(x)
            case "HardSigmoid":
                return np.clip(self.alpha * x + self.beta, 0.0, 1.0)
            case "HardSwish":
                return x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)
            case "Gelu":
                inner = np.tanh(_ROOT_OF_2_BY_PI * (x + 0.044715 * x**3)) if self.alpha == 1 else _erf(x / 2**0.5)
                return 0.5 * x * (1.0 + inner)
            case "Erf":
                return _erf(x)
            case "Softplus":
                return np.logaddexp(x, 0.0)
            case "Softsign":
                return x / (1.0 + np.abs(x))
            case "Mish":
                return x * np.tanh(np.logaddexp(x, 0.0))
            case "Elu":
                return np.where(x < 0.0, self.alpha * np.expm1(np.minimum(x, 0.0)), x)
            case "Abs":
                return np.abs(x)
            case "Sign":
                return np.sign(x)
            case "Sqrt":
                return np.sqrt(np.maximum(x, 0.0))
            case "Exp":
                return np.exp(x)
            case "Log":
                return np.log(np.maximum(x, 0.0))
            case "Reciprocal":
                return 1.0 / x
            case "Pow":
                whole = self.alpha == round(self.alpha)
                return np.asarray(np.power(x if whole else np.maximum(x, 0.0), self.alpha))


def _erf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))
