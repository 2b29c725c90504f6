"""An operator that stays in float, between integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.tensor import Array, Arrays
from nnkit.reading import refuse_other_files

if TYPE_CHECKING:
    import onnxruntime

_SESSIONS = 32  # of as many operators at a time


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineOnnx(AffineOpBase):
    """The operator by ONNX Runtime on the real values of its inputs, and the result to the nearest stored one.

    model: the operator as an ONNX model of its own for a batch of 1, its constants within; its inputs are the op's,
    in their order. operator: its name in ONNX.
    """

    kind: ClassVar[str] = "float"
    operator: str
    model: bytes

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        reals = [source.format.dequantize(x).astype(np.float32) for source, x in zip(sources, inputs, strict=True)]
        return output.format.quantize(run_onnx(self.model, reals))


def run_onnx(model: bytes, inputs: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The one result [N, ...] of a model of batch 1, from inputs [N, ...] in its order."""
    session = _session(model)
    names = [each.name for each in session.get_inputs()]
    results: list[Any] = []
    for index in range(len(inputs[0])):
        feeds = {name: given[index : index + 1] for name, given in zip(names, inputs, strict=True)}
        results.append(session.run(None, feeds)[0])
    return np.asarray(np.concatenate(results), np.float32)


@lru_cache(_SESSIONS)
def _session(model: bytes) -> onnxruntime.InferenceSession:
    import onnxruntime

    refuse_other_files(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
