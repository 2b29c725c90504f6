"""Whether a correction brings what leaves the NNIE nearer to the float network, on samples kept aside for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize.judge import Verdict, outputs_sqnr_db, verdict
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.lowered import NnieLowered

_LEAST_GAIN_DB = 0.1
_EXACT_DB = 200.0


@dataclass(frozen=True, eq=False)
class Accuracy:
    """SQNR to the float network in dB: of all samples together, and of each of them."""

    together_db: float
    each_db: NDArray[np.float64]


class Judge(Protocol):
    """Says whether a correction is kept, by the accuracy without and with it."""

    def __call__(self, correction: str, without: Accuracy, with_it: Accuracy) -> Verdict: ...


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
        stored = [simulate(program, quantized_inputs(program, sample)) for sample in self._samples]
        reals = {
            name: np.stack([program.tensors[name].format.dequantize(each[name]) for each in stored]) for name in names
        }
        expected = {
            name: np.stack([each[name].reshape(program.tensors[name].shape) for each in self._expected])
            for name in names
        }
        each_db = [
            min(
                _EXACT_DB,
                outputs_sqnr_db({n: reals[n][i] for n in names}, {n: expected[n][i] for n in names}),
            )
            for i in range(len(stored))
        ]
        return Accuracy(outputs_sqnr_db(reals, expected), np.asarray(each_db))


def no_worse(correction: str, without: Accuracy, with_it: Accuracy) -> Verdict:
    """For a correction that was asked for: kept unless all samples together are worse with it."""
    return verdict(correction, without.together_db, with_it.together_db)


def clearly_better(correction: str, without: Accuracy, with_it: Accuracy) -> Verdict:
    """For one that nobody asked for: kept where its mean gain over the samples is 0.1 dB or more, and no less than
    its own standard error."""
    gains = with_it.each_db - without.each_db
    error = float(gains.std(ddof=1)) / math.sqrt(gains.size) if gains.size > 1 else math.inf
    together = with_it.together_db >= without.together_db
    kept = together and float(gains.mean()) >= max(_LEAST_GAIN_DB, error)
    figures = verdict(correction, without.together_db, with_it.together_db).note.split(": ", 1)[1]
    scatter = f"{gains.mean():+.2f} dB on the mean input, with a standard error of {error:.2f}"
    return Verdict(kept, f"{correction} {'kept' if kept else 'undone'}: {figures}; {scatter}")
