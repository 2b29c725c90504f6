"""What parts of the calibration inputs span, for stages that judge ranges on the held-out inputs.

The choice of the method and the tuning of ranges hold out the same quarters. What the first one observed of the
others is kept for the second, as long as the network is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from nnkit.calibrate.run import calibrate, sources_of
from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph import Model
from nnkit.quantize.judge import JUDGING
from nnkit.samples import Sample

_observed: WeakKeyDictionary[Model, dict[str, CalibrationStats]] = WeakKeyDictionary()
"""By network, the latest ones by what was observed: as many as there are quarters, with 32 KiB of bins a value."""


def observed_on(model: Model, samples: Sequence[Sample], percentile: float) -> CalibrationStats:
    """Histograms of every value over the samples, with the ranges of the method `percentile`."""
    inputs = sources_of(model, samples)
    digest = hashlib.sha256(repr(percentile).encode())
    for name, arrays in inputs.items():
        digest.update(repr((name, [array.shape for array in arrays])).encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    known, key = _observed.setdefault(model, {}), digest.hexdigest()
    if key not in known:
        while len(known) >= JUDGING:
            del known[next(iter(known))]
        known[key] = calibrate(model, inputs, {}, method="percentile", percentile=percentile)
    return known[key]
