"""What all affine ops share: their tensors, and how many inputs are computed at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nnkit.errors import InternalError
from nnkit.program.formats import Affine
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, IntArray, Tensor, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True)
class AffineTensor(Tensor):
    """A value of an affine program; its format is per tensor. Without bounds it can hold all that the format can."""

    format: Affine

    def __post_init__(self) -> None:
        if self.low == self.high == 0:
            object.__setattr__(self, "low", self.format.qmin)
            object.__setattr__(self, "high", self.format.qmax)

    @property
    def scale(self) -> float:
        """Its one scale."""
        return self.format.scale[0]

    @property
    def zero_point(self) -> int:
        """Its one zero point."""
        return self.format.zero_point[0]

    @property
    def reach(self) -> int:
        """The largest |q - zero point|."""
        return max(self.format.qmax - self.zero_point, self.zero_point - self.format.qmin)

    def centred(self, stored: Array) -> IntArray:
        """Stored integers without the zero point: q - zero point."""
        return np.asarray(stored.astype(np.int64) - self.zero_point)


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineOpBase(OpBase):
    """An op that computes many inputs at a time."""

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """`compute_many` of one input. Raises TypeError where a tensor is not affine."""
        affine: dict[str, AffineTensor] = {}
        for name in (*self.inputs, self.output):
            tensor = tensors[name]
            if not isinstance(tensor, AffineTensor):
                raise TypeError(f"tensor {name!r} is {tensor.format}, not affine")
            affine[name] = tensor
        result: Array = self.compute_many([np.asarray(x)[None] for x in inputs], affine)[0]
        return result

    def compute_many(self, inputs: Arrays, tensors: Mapping[str, AffineTensor]) -> Array:
        """Stored integers [N, ...] -> [N, ...] in the output's storage type."""
        output = tensors[self.output]
        sources = [tensors[name] for name in self.inputs]
        return np.asarray(self._values(inputs, sources, output)).astype(output.format.dtype)

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        """The stored integers of `compute_many`, of any integer type; `sources` are the inputs' tensors."""
        raise InternalError(f"the op {self.kind!r} has no arithmetic", where=self.name)
