"""Schemes as data: through JSON and back, and what is refused."""

from __future__ import annotations

import json

import pytest

from nnkit.errors import RecipeError
from nnkit.quantize import FixedPointScheme, InputRange, PinnedFormats, PinnedLayer
from nnkit.quantize.affine import AffineScheme
from nnkit.quantize.schemes import QuantizationScheme, scheme_from_dict, scheme_to_dict

SCHEMES: list[QuantizationScheme] = [
    FixedPointScheme(),
    FixedPointScheme(bits=8, accumulate="running", unsigned="never", headroom=2.0),
    FixedPointScheme(accumulator_bits=64, input_ranges={"image": InputRange(0.0, 255.0, True)}),
    FixedPointScheme(pinned=PinnedFormats("f.json", 16, 0, {"conv": PinnedLayer(0, 14, 10, 10, 4)})),
    AffineScheme(),
    AffineScheme(False, False, True, "kl", "percentile", 99.0, bias_correction=False),
    AffineScheme(activation_bits=16, weight_bits=16, headroom=2.0),
]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_json_gives_the_same_scheme(scheme: QuantizationScheme) -> None:
    again = scheme_from_dict(json.loads(json.dumps(scheme_to_dict(scheme))))
    assert again == scheme
    assert type(again) is type(scheme)


def test_what_is_left_out_has_its_default() -> None:
    assert scheme_from_dict({"kind": "affine", "per_channel": False}) == AffineScheme(per_channel=False)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "kind of scheme is None"),
        ({"kind": "logarithmic"}, "kind of scheme"),
        ({"kind": "affine", "bits": 8}, "no field 'bits'"),
        ({"kind": "power_of_two", "bits": 12}, "'bits' is 12"),
        ({"kind": "power_of_two", "headroom": 0.5}, "'headroom' is 0.5"),
        ({"kind": "affine", "activation_bits": 12}, "'activation_bits' is 12"),
        ({"kind": "affine", "per_channel": "yes"}, "'per_channel' is 'yes'"),
        ({"kind": "affine", "weight_method": "best"}, "'weight_method' is 'best'"),
    ],
)
def test_mistakes_are_refused(data: dict[str, object], reason: str) -> None:
    with pytest.raises(RecipeError, match=reason):
        scheme_from_dict(data)
