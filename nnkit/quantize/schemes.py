"""Quantisation schemes as data: one union, written as JSON and read back exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from nnkit.calibrate.methods import Method
from nnkit.errors import RecipeError
from nnkit.quantize.affine.scheme import AffineScheme
from nnkit.quantize.pinned import PinnedFormats, PinnedLayer
from nnkit.quantize.scheme import FixedPointScheme, InputRange, UnsignedPolicy
from nnkit.recipe.problems import suggestion

QuantizationScheme: TypeAlias = FixedPointScheme | AffineScheme
"""Power of two and affine, each int8, int16, or mixed by tags; affine weights per tensor or per channel."""

_KINDS: Mapping[str, type[FixedPointScheme] | type[AffineScheme]] = {
    "power_of_two": FixedPointScheme,
    "affine": AffineScheme,
}
_CHOICES: Mapping[str, tuple[object, ...]] = {
    "bits": (8, 16),
    "activation_bits": (8, 16),
    "weight_bits": (8, 16),
    "accumulate": ("wide", "running"),
    "accumulator_bits": (32, 64),
    "unsigned": get_args(UnsignedPolicy),
    "activation_method": get_args(Method),
    "weight_method": get_args(Method),
}
_LIMITS: Mapping[str, tuple[float, float]] = {
    "headroom": (1.0, 16.0),
    "eight_bit_headroom": (1.0, 16.0),
    "percentile": (50.0, 100.0),
}


def scheme_to_dict(scheme: QuantizationScheme) -> dict[str, Any]:
    """Plain data for JSON or YAML: `kind`, then every field."""
    kind = next(name for name, found in _KINDS.items() if type(scheme) is found)
    fields = {field.name: getattr(scheme, field.name) for field in dataclasses.fields(scheme)}
    if isinstance(scheme, FixedPointScheme):
        fields["input_ranges"] = {name: dataclasses.asdict(found) for name, found in scheme.input_ranges.items()}
        pinned = scheme.pinned
        fields["pinned"] = None if pinned is None else _pinned_to_dict(pinned)
    return {"kind": kind, **fields}


def scheme_from_dict(data: Mapping[str, Any]) -> QuantizationScheme:
    """The scheme that `scheme_to_dict` wrote; fields that are left out have their defaults.

    Raises RecipeError for an unknown kind, an unknown field, or a value that a field cannot have.
    """
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise RecipeError(f"the kind of scheme is {kind!r}", remedy=f"kinds: {', '.join(_KINDS)}")
    found = _KINDS[kind]
    defaults = {field.name: field.default for field in dataclasses.fields(found)}
    for name, value in fields.items():
        if name not in defaults:
            raise RecipeError(
                f"a scheme of kind {kind} has no field '{name}'",
                remedy=suggestion(name, list(defaults), "fields of the scheme"),
            )
        _check(name, value, defaults[name])
    if fields.get("pinned") is not None:
        fields["pinned"] = _pinned_from_dict(fields["pinned"])
    if "input_ranges" in fields:
        fields["input_ranges"] = {name: InputRange(**found) for name, found in fields["input_ranges"].items()}
    return found(**fields)


def _check(name: str, value: Any, default: Any) -> None:
    if name in _CHOICES:
        if value not in _CHOICES[name] or isinstance(value, bool):
            raise RecipeError(
                f"'{name}' is {value!r}", remedy=f"one of: {', '.join(str(choice) for choice in _CHOICES[name])}"
            )
    elif isinstance(default, bool):
        if not isinstance(value, bool):
            raise RecipeError(f"'{name}' is {value!r}", remedy="true or false")
    elif name in _LIMITS:
        low, high = _LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise RecipeError(f"'{name}' is {value!r}", remedy=f"a number from {low:g} to {high:g}")


def _pinned_to_dict(pinned: PinnedFormats) -> dict[str, Any]:
    layers = {name: dataclasses.asdict(layer) for name, layer in pinned.layers.items()}
    return {"source": pinned.source, "bits": pinned.bits, "input_frac": pinned.input_frac, "layers": layers}


def _pinned_from_dict(data: Mapping[str, Any]) -> PinnedFormats:
    layers = {name: PinnedLayer(**layer) for name, layer in data["layers"].items()}
    return PinnedFormats(data["source"], data["bits"], data["input_frac"], layers)
