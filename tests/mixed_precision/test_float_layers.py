"""Layers that are left in float: a search finds the one that is made bad on purpose."""

from __future__ import annotations

from nnkit.mixed_precision.budget import search_budget
from nnkit.mixed_precision.float_layers import float_layer_measurer
from nnkit.quantize.affine import float_outputs
from nnkit.quantize.lowering import lower
from tests.quantize.affine.test_affine_diagnose import MODEL, images, program_of


def test_search_leaves_the_bad_layer_in_float() -> None:
    program, x = program_of(squeezed="v3"), {"x": images(2, 12)}  # the output: no integer layer reads it
    candidates, measure = float_layer_measurer(lower(MODEL), program, x, float_outputs(MODEL, x))
    bad = next(op.name for op in program.ops if op.output == "v3")
    result = search_budget(candidates, measure, 0)  # what has no weights costs nothing
    assert bad in result.chosen
    assert result.cost == 0
    assert result.pareto[-1].sqnr_db > measure(frozenset()).sqnr_db + 3.0
