"""How much a float network makes of an error at its input, which no quantiser can undo.

    python -m benchmarks.zoo.disturbed NETWORK.onnx INPUT.npy [INPUT.npy ...]

Every input is disturbed by seeded white noise of 40 dB below its power; printed is the SQNR of the float outputs
with the noise against those without, over all inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from nnkit.distance import DistanceSum

NOISE_DB = 40.0


def disturbed_db(network: Path, inputs: Sequence[NDArray[np.float32]]) -> float:
    """The SQNR in dB of the outputs of a network of one input."""
    session = onnxruntime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
    (name,) = [each.name for each in session.get_inputs()]
    generator, distance = np.random.default_rng(5), DistanceSum()
    for x in inputs:
        level = np.sqrt(np.square(x).mean() * 10.0 ** (-NOISE_DB / 10.0))
        noise = (level * generator.standard_normal(x.shape)).astype(np.float32)
        for found, expected in zip(session.run(None, {name: x + noise}), session.run(None, {name: x}), strict=True):
            distance.add(found, expected)
    return distance.result().sqnr_db


def main() -> int:
    """Print the figure of one network."""
    if len(sys.argv) < 3:
        raise SystemExit("usage: python -m benchmarks.zoo.disturbed NETWORK.onnx INPUT.npy [INPUT.npy ...]")
    inputs = [np.load(path) for path in sys.argv[2:]]
    print(f"{disturbed_db(Path(sys.argv[1]), inputs):.1f} dB, with inputs of {NOISE_DB:.0f} dB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
