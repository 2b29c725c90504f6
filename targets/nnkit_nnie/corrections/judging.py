"""Whether a correction brings what leaves the NNIE nearer to the float network, on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.quantize.judge import Accuracy, accuracy, reals
from nnkit.samples import Sample
from nnkit_nnie.lowered import NnieLowered


class Judging:
    """The float network's values on the samples that judge: outputs, and what the CPU is handed."""

    def __init__(self, original: NnieLowered, samples: Sequence[Sample]) -> None:
        network = original.network
        left = [name for part in network.segments if part.placement == "npu" for name in part.outputs]
        session = FloatSession(network.graph.model, fetch=left)
        self._left, self._samples = left, samples
        self._expected = [session.run(sample.inputs) for sample in samples]

    def accuracy(self, program: Program) -> Accuracy:
        """The accuracy of a program, which may have the network's values in other layers than the network."""
        names = [name for name in self._left if name in program.tensors]
        expected = {
            name: np.stack([each[name].reshape(program.tensors[name].shape) for each in self._expected])
            for name in names
        }
        return accuracy(reals(program, self._samples, names), expected)
