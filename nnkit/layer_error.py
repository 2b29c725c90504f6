"""What a layer of a quantised network loses against the float network: the one record of it, and its ranking.

*Isolated* is the SQNR of its output when its inputs are the float network's, rounded to their formats: what this
layer adds by itself. *Cumulative* is that of its output in the program, errors of earlier layers included. *Clip
rate* is the share of the float layer's values that its output cannot hold. `nnkit.verify.layer_errors` measures
programs of any arithmetic; `nnkit.quantize.affine.diagnose` also layers whose values the float network does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True)
class LayerError:
    """One layer's, over all samples.

    value: the name of its output. isolated_db: None where it was not measured, or a value that the layer reads is
    none of the float network's. clip_rate: None where the output is float.
    """

    layer: str
    value: str
    isolated_db: float | None
    cumulative_db: float
    clip_rate: float | None


def ranks(errors: Sequence[LayerError]) -> dict[str, int]:
    """By layer, 1 for the one that adds most error of its own; layers that add none have no rank."""
    worst = sorted(
        (error.isolated_db, place, error.layer)
        for place, error in enumerate(errors)
        if error.isolated_db is not None and isfinite(error.isolated_db)
    )
    return {layer: rank for rank, (_, _, layer) in enumerate(worst, start=1)}


def gap_db(seen: LayerError, unseen: LayerError) -> float | None:
    """What a layer's output loses on inputs that calibration has not seen; None where either is exact."""
    both = (seen.cumulative_db, unseen.cumulative_db)
    return both[0] - both[1] if all(map(isfinite, both)) else None
