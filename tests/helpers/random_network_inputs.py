"""Inputs for networks, whatever theirs are called."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model


def random_inputs(model: Model, seed: int, *, low: float = -1.0, high: float = 1.0) -> dict[str, NDArray[np.float32]]:
    """One sample by input name, uniform in [low, high); the same for the same seed."""
    generator = np.random.default_rng(seed)
    return {spec.name: generator.uniform(low, high, spec.shape).astype(np.float32) for spec in model.inputs}
