"""What moves stored integers without looking at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.sliced import sliced
from nnkit.program.tensor import Array, Arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineMove(AffineOpBase):
    """Moves stored integers: `reshape`, nearest `upsample` by scale_hw, `pad` (top, left, bottom, right).

    `transpose` has an order, `slice` starts and steps, as the ops of fixed point have them.
    """

    kind: ClassVar[str] = "move"
    move: Literal["reshape", "upsample", "pad", "transpose", "slice"]
    scale_hw: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    order: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        return self.moved(inputs[0], output.shape)

    def moved(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Elements of any kind, [N, ...] -> [N, *shape], as the op moves stored integers."""
        if self.move == "reshape":
            return x.reshape(len(x), *shape)
        if self.move == "upsample":
            return x.repeat(self.scale_hw[0], axis=2).repeat(self.scale_hw[1], axis=3)
        if self.move == "transpose":
            return x.transpose(0, *(axis + 1 for axis in self.order))
        if self.move == "slice":
            return sliced(x, self.starts, self.steps, shape)
        top, left, bottom, right = self.pads
        return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=self.pad_value)
