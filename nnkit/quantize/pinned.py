"""Pinned formats: a file that fixes every layer's fraction bits, so that an existing release is reproduced.

JSON: {"bits": 16, "input_frac": 0, "accumulation": "...", "layers": [{"layer", "input_frac", "weight_frac",
"bias_frac", "output_frac", "norm"}, ...]}. Other top-level keys are notes for readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nnkit.did_you_mean import nearest
from nnkit.errors import ModelError, RecipeError
from nnkit.program import Convolution, Pool, Program
from nnkit.quantize.integer_bits import fraction_bits
from nnkit.reading import read_json
from nnkit.recipe.problems import shown

_FIELDS = ("input_frac", "weight_frac", "bias_frac", "output_frac", "norm")


@dataclass(frozen=True)
class PinnedLayer:
    """Fraction bits of one layer with weights; norm = input_frac + weight_frac - output_frac."""

    input_frac: int
    weight_frac: int
    bias_frac: int
    output_frac: int
    norm: int


@dataclass(frozen=True)
class PinnedFormats:
    """The whole file. `source` names it in messages."""

    source: str
    bits: int
    input_frac: int
    layers: Mapping[str, PinnedLayer]

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", MappingProxyType(dict(self.layers)))

    def of(self, names: Iterable[str]) -> PinnedLayer:
        """The entry for a layer known by any of `names`. Raises RecipeError with the nearest entry."""
        wanted = tuple(names)
        for name in wanted:
            if name in self.layers:
                return self.layers[name]
        near = nearest(wanted[0], self.layers) if wanted else None
        hint = f"; the nearest entry is {near!r}" if near else ""
        raise RecipeError(
            f"no pinned formats for layer {wanted[0]!r}{hint}",
            where=self.source,
            remedy="add an entry for this layer, or drop `formats` to let nnkit choose",
        )


def read_pinned_formats(path: Path) -> PinnedFormats:
    """Read and check a pinned-formats file. Raises UserFileError (missing, not JSON) or RecipeError (content)."""
    remedy = "pinned formats are a JSON object with `bits`, `input_frac` and `layers`"
    data = read_json(path, what="the file of pinned formats", remedy=remedy)
    return _parse(data, path.name)


def _pools_that_cannot_be_pinned(program: Program) -> list[str]:
    """Pools with a format of their own that a convolution reads: in the file a pool has its input's."""
    pool_of: dict[str, str] = {}  # value -> the pool that its format comes from
    read: dict[str, None] = {}
    for op in program.ops:
        if isinstance(op, Convolution):
            read.update({pool_of[name]: None for name in op.inputs if name in pool_of})
        elif isinstance(op, Pool) and program.tensors[op.inputs[0]].format != program.tensors[op.output].format:
            pool_of[op.output] = op.name
        else:
            pools = [pool_of[name] for name in op.inputs if name in pool_of]
            pool_of.update(dict.fromkeys([op.output], pools[0]) if pools else {})
    return list(read)


def format_pinned(program: Program) -> str:
    """The formats of a fixed-point program's convolutions as such a file, so that later builds keep them.

    Raises ModelError for what the file cannot say: layers of several widths, and a pool that changes
    the format of what a convolution reads.
    """
    pools = _pools_that_cannot_be_pinned(program)
    if pools:
        raise ModelError(
            f"with pinned formats a pool has its input's, and these have one of their own: {', '.join(pools)}",
            remedy="pin the ranges instead: the build's calibration.yaml, as calibration: {table: ...}",
        )
    ops = [op for op in program.ops if isinstance(op, Convolution)]
    bits = {op.weight_bits for op in ops} | {program.tensors[op.output].fixed.bits for op in ops}
    if len(bits) != 1:
        raise ModelError(
            f"pinned formats have one number of bits; this program has layers of {sorted(bits)}",
            remedy="pin a program of one precision",
        )
    layers = []
    for op in ops:
        source, output = program.tensors[op.inputs[0]].fixed, program.tensors[op.output].fixed
        # The file's biases have as many bits as its weights: the finest fraction that holds the largest.
        largest = float(np.abs(op.bias).max(initial=0)) * 2.0**-op.bias_frac
        bias_frac = min(fraction_bits(-largest, largest, op.weight_bits, True), source.frac + op.weight_frac)
        layers.append(
            {
                "layer": op.name,
                "input_frac": source.frac,
                "weight_frac": op.weight_frac,
                "bias_frac": bias_frac,
                "output_frac": output.frac,
                "norm": source.frac + op.weight_frac - output.frac,
            }
        )
    document = {"bits": bits.pop(), "input_frac": program.tensors[program.inputs[0]].fixed.frac, "layers": layers}
    return json.dumps(document, indent=1) + "\n"


def _parse(data: Any, source: str) -> PinnedFormats:
    if not isinstance(data, dict) or not isinstance(data.get("layers"), list):
        raise RecipeError("no list `layers`", where=source, remedy='write {"bits": 16, "layers": [...]}')
    layers: dict[str, PinnedLayer] = {}
    for index, entry in enumerate(data["layers"]):
        place = f"{source}: layers[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("layer"), str):
            raise RecipeError(
                "an entry needs `layer`, the layer's name", where=place, remedy='write {"layer": "conv1", ...}'
            )
        values = [_integer(entry, key, place) for key in _FIELDS]
        if entry["layer"] in layers:
            raise RecipeError(
                f"layer {shown(entry['layer'])!r} is listed twice", where=place, remedy="keep one of the entries"
            )
        pinned = PinnedLayer(*values)
        expected = pinned.input_frac + pinned.weight_frac - pinned.output_frac
        if pinned.norm != expected or pinned.norm < 0:
            raise RecipeError(
                f"norm is {pinned.norm}, but input_frac + weight_frac - output_frac is {expected}",
                where=place,
                remedy="norm must equal that sum and must not be negative",
            )
        layers[entry["layer"]] = pinned
    bits = _integer(data, "bits", source)
    if bits not in (8, 16):
        raise RecipeError(f"bits is {bits}; 8 and 16 are supported", where=source, remedy="write 8 or 16")
    return PinnedFormats(source, bits, _integer(data, "input_frac", source), layers)


def _integer(data: Mapping[str, Any], key: str, place: str) -> int:
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not -64 <= value <= 64:
        raise RecipeError(
            f"`{key}` must be an integer between -64 and 64, not {_brief(value)}",
            where=place,
            remedy="write the layer's fraction bits, as `nnkit table convert --to pinned` does",
        )
    return value


def _brief(value: Any) -> str:
    """A value of the file in a message; not the text of what may be megabytes."""
    if isinstance(value, str):
        return repr(shown(value))
    if isinstance(value, bool | float) or value is None:
        return json.dumps(value)
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "one beyond them"
