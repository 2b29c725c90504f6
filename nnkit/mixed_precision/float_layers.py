"""Which layers of an affine program to leave in float: what the searches measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from nnkit.distance import Distance, DistanceSum
from nnkit.mixed_precision.search import Candidate, LayerSet, Trial
from nnkit.program.affine import AffineConv, AffineMove, AffineProgram
from nnkit.quantize.affine.diagnose import Samples, mixed_outputs
from nnkit.quantize.float_program import FloatProgram


def float_layer_measurer(
    lowered: FloatProgram,
    program: AffineProgram,
    samples: Samples,
    reference: Mapping[str, NDArray[Any]],
    judge: Callable[[Distance], str] = lambda distance: "",
) -> tuple[tuple[Candidate, ...], Callable[[LayerSet], Trial]]:
    """Candidates and `measure` for `search` and `search_budget`: which layers to leave in float.

    Layers that only move values are no candidates; the others cost the bytes that their weights take more in float.
    judge: the gate that a distance fails, in words; empty where it fails none.
    """
    candidates = tuple(
        Candidate(op.name, (4 - op.weight_format.bytes) * op.weight.size if isinstance(op, AffineConv) else 0)
        for op in program.ops
        if not isinstance(op, AffineMove)
    )

    def measure(layers: LayerSet) -> Trial:
        total = DistanceSum()
        for name, values in mixed_outputs(lowered, program, samples, layers).items():
            total.add(values, reference[name])
        distance = total.result()
        return Trial(layers, distance.cosine, distance.sqnr_db, distance.max_abs, judge(distance))

    return candidates, measure
