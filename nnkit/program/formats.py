"""Number formats of tensors: what a stored value means.

`Fixed` is two's-complement (or unsigned) power-of-two fixed point as in the published GAP8 flow:
value = q * 2**-frac. `Affine` is integers with a scale and a zero point, `Float` marks tensors of float segments,
`Pixels` an image as a camera gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


class _IntegerStorage:
    """What follows from the stored bits and their sign alone."""

    bits: int
    signed: bool

    @property
    def qmin(self) -> int:
        """Smallest stored integer."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def qmax(self) -> int:
        """Largest stored integer."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes."""
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy storage type."""
        return np.dtype(f"{'i' if self.signed else 'u'}{self.bytes}")


@dataclass(frozen=True)
class Fixed(_IntegerStorage):
    """Power-of-two fixed point: `bits` stored bits of which `frac` are fraction bits (may be negative).

    Source: the published GAP8 quantiser: q = clamp(floor(x * 2^frac + 0.5)).
    """

    bits: int
    frac: int
    signed: bool = True

    def quantize(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Real values -> integers, half up, saturated to the format. Any shape; float64 inside."""
        q = np.floor(np.asarray(values, dtype=np.float64) * 2.0**self.frac + 0.5)
        return np.clip(q, self.qmin, self.qmax).astype(np.int64)

    def quantize_scalar(self, value: float) -> int:
        """`quantize` of one number."""
        return int(self.quantize(np.asarray(value)))

    def dequantize(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Integers -> real values (exact in float64)."""
        return np.asarray(stored, dtype=np.float64) * 2.0**-self.frac

    def __str__(self) -> str:
        return f"{'s' if self.signed else 'u'}{self.bits}.{self.frac}"


@dataclass(frozen=True)
class Float:
    """IEEE floating point: binary32 for what runs in float on a CPU, binary16 where the hardware has it.

    centre: what a stored 0 stands for; stored values are real ones less this.
    """

    bits: int = 32
    centre: float = 0.0

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes."""
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy storage type; values of half precision are kept in it."""
        return np.dtype(f"f{self.bytes}")

    def quantize(self, values: NDArray[Any]) -> NDArray[Any]:
        """Real values as stored: rounded to this precision, half to even."""
        values = np.asarray(values)
        return (values - self.centre if self.centre else values).astype(self.dtype)

    def dequantize(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Stored values as real ones."""
        return np.asarray(stored, dtype=np.float64) + self.centre

    def __str__(self) -> str:
        return f"f{self.bits}"


@dataclass(frozen=True)
class Affine(_IntegerStorage):
    """Affine integers: value = (q - zero_point) * scale, per tensor (axis None) or per index along `axis`.

    scale, zero_point: one each per tensor, or one per index along `axis`. centre: what the zero point stands for, and
    is added, where the layer in front has taken it away and the next one gives it back. Source: ONNX QuantizeLinear
    and DequantizeLinear: q = clamp(round_half_even(x / scale) + zero_point).
    """

    bits: int
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    signed: bool = False
    centre: float = 0.0

    def quantize(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Real values -> integers, half to even, saturated. The division is in float32, as ONNX Runtime's is."""
        scale, zero_point = self._shaped(values.ndim)
        with np.errstate(over="ignore"):
            real = np.asarray(values, np.float32) - np.float32(self.centre)
            q = np.rint(real / scale.astype(np.float32))
        return np.asarray(np.clip(q.astype(np.float64) + zero_point, self.qmin, self.qmax), np.int64)

    def dequantize(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Integers -> real values."""
        scale, zero_point = self._shaped(stored.ndim)
        return (np.asarray(stored, np.float64) - zero_point) * scale + self.centre

    def _shaped(self, rank: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Scale and zero point in a shape that broadcasts along `axis` of an array of this rank."""
        shape = [1] * rank
        if self.axis is not None:
            shape[self.axis] = -1
        return np.asarray(self.scale, np.float64).reshape(shape), np.asarray(self.zero_point, np.int64).reshape(shape)

    def __str__(self) -> str:
        kind = f"{'s' if self.signed else 'u'}{self.bits}"
        if self.axis is not None:
            return f"{kind} affine per channel"
        zero = self.zero_point[0] - round(self.centre / self.scale[0])
        return f"{kind} affine {self.scale[0]:.6g}, zero at {zero}"


@dataclass(frozen=True)
class Pixels(_IntegerStorage):
    """Pixels of 8 bits, [..., C, H, W], that stand for (pixel - mean) * scale: a mean and a scale for every channel.

    The format of an input whose preprocessing the hardware does itself.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    bits: int = 8
    signed: bool = False

    def quantize(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Preprocessed values -> the pixels they were made from; half to even, saturated."""
        mean, scale = self._by_channel()
        pixels = np.rint(np.asarray(values, np.float64) / scale + mean)
        return np.clip(pixels, self.qmin, self.qmax).astype(np.int64)

    def dequantize(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Pixels -> preprocessed values."""
        mean, scale = self._by_channel()
        return (np.asarray(stored, np.float64) - mean) * scale

    def _by_channel(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.array(self.mean).reshape(-1, 1, 1), np.array(self.scale).reshape(-1, 1, 1)

    def __str__(self) -> str:
        return "u8 pixels"


Format: TypeAlias = Fixed | Affine | Float | Pixels
