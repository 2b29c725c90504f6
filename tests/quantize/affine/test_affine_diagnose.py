"""Diagnosis of an affine program: against the simulator, ONNX Runtime, and a layer that is made bad on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnkit.calibrate import ValueRange, calibrate
from nnkit.distance import distance
from nnkit.errors import InternalError
from nnkit.layer_error import gap_db, ranks
from nnkit.quantize.affine import AffineScheme, float_outputs, outputs_of, quantize_affine
from nnkit.quantize.affine.diagnose import diagnose, mixed_outputs
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower

from .test_affine_quantize import images, network

MODEL = network(8, ["conv", "depthwise", "add", "conv"])


def program_of(model=MODEL, squeezed: str | None = None):  # type: ignore[no-untyped-def]
    """squeezed: a value whose range is cut to a fifth."""
    stats = calibrate(model, {"x": list(images(1, 16))}, {}, method="max")
    if squeezed is not None:
        found = stats.ranges[squeezed]
        high = found.high / 5
        stats = replace(
            stats, ranges={**stats.ranges, squeezed: ValueRange(found.low / 5, high, found.low / 5, high)}
        )
    return quantize_affine(
        LoweredLayers.of(model), stats, AffineScheme(activation_method="max", bias_correction=False)
    )


def test_last_layer_is_as_good_as_the_network() -> None:
    program, x = program_of(), {"x": images(2, 20)}
    found = diagnose(lower(MODEL), program, x)
    name = program.outputs[0]
    expected = distance(outputs_of(program, x)[name], float_outputs(MODEL, x)[name]).sqnr_db
    assert found[-1].value == name
    assert found[-1].cumulative_db == pytest.approx(expected, abs=1e-3)
    assert [layer.layer for layer in found] == [op.name for op in program.ops]


def test_first_layer_has_no_errors_before_it() -> None:
    found = diagnose(lower(MODEL), program_of(), {"x": images(2, 9)})
    assert found[0].isolated_db == pytest.approx(found[0].cumulative_db, abs=1e-9)


def test_a_clipped_layer_stands_out() -> None:
    value = "v1"
    program = program_of(squeezed=value)
    found, unseen = (diagnose(lower(MODEL), program, {"x": images(seed, 20)}) for seed in (2, 3))
    rank = ranks(found)
    worst, same = next(pair for pair in zip(found, unseen, strict=True) if rank[pair[0].layer] == 1)
    assert worst.value == value
    # What lies beyond the range, counted on ONNX Runtime's values.
    from ..conftest import float_values

    whole = [float_values(MODEL, {"x": image[None]})[value] for image in images(2, 20)]
    top = float(np.max([float_values(MODEL, {"x": image[None]})[value].max() for image in images(1, 16)])) / 5
    assert worst.clip_rate == pytest.approx(float(np.mean(np.stack(whole) > top * (1 + 0.5 / 255))), abs=2e-3)
    assert all(layer.clip_rate < 0.01 for layer in found if layer.value != value)
    gap = gap_db(worst, same)
    assert gap is not None
    assert abs(gap) < 3.0  # it is as bad on unseen inputs


def test_layers_in_float_none_and_all() -> None:
    program, x = program_of(), {"x": images(2, 11)}
    name = program.outputs[0]
    none = mixed_outputs(lower(MODEL), program, x, frozenset())[name]
    assert np.allclose(none, outputs_of(program, x)[name], atol=1e-6)
    everything = mixed_outputs(lower(MODEL), program, x, frozenset(op.name for op in program.ops))[name]
    assert np.allclose(everything, float_outputs(MODEL, x)[name], atol=1e-4)


def test_another_model_is_refused() -> None:
    with pytest.raises(InternalError, match="not quantised from this network"):
        diagnose(lower(network(1, ["conv"])), program_of(), {"x": images(2, 2)})
