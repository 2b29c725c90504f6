"""A function of every element, from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.tensor import Array, Arrays, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineLookup(AffineOpBase):
    """y = table[x - qmin of the input's storage]: one stored output for each of the 2^bits inputs.

    function: the operator of ONNX that the table holds; parameters: its alpha and beta, where it has them.
    """

    kind: ClassVar[str] = "lookup"
    table: IntArray
    function: str
    parameters: tuple[float, ...] = ()

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        return np.asarray(self.table[inputs[0].astype(np.int64) - sources[0].format.qmin])
