"""The mapper's `mapper_quant/` folder: what its quantiser computed for the last calibration image, layer by layer.

Names: `<layer>_output<k>_<C>_<H>_<W>_quant.linear.hex` (S20.12), `<layer>_weight-anti.float`,
`<layer>_input<k>_<C>_<H>_<W>_anti_quant.linear.float` and more. One value a line, NCHW order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.distance import Distance, distance
from nnkit.errors import UserFileError
from nnkit_nnie.ops import STORED

Sort: TypeAlias = Literal["output", "input", "weight"]
_NAME = re.compile(
    r"^(?P<layer>.+)_(?P<sort>output|input)(?P<index>\d+)_(?P<shape>\d+_\d+_\d+)_"
    r"(?P<form>quant\.linear\.hex|anti_quant\.linear\.float)$"
)
_WEIGHT = re.compile(r"^(?P<layer>.+)_weight-anti\.float$")


@dataclass(frozen=True)
class Dump:
    """One file. shape: (C, H, W); empty for weights."""

    path: Path
    layer: str
    sort: Sort
    index: int
    shape: tuple[int, ...]

    def values(self) -> NDArray[np.float64]:
        """Its values in real units, flat. Raises UserFileError where a line is no number."""
        try:
            words = self.path.read_text(encoding="ascii").split()
            if self.path.name.endswith(".hex"):
                return STORED.dequantize(np.asarray([_signed(word) for word in words], np.int64))
            return np.asarray([float(word) for word in words], np.float64)
        except (OSError, ValueError) as error:
            raise UserFileError(
                f"this dump of the mapper cannot be read: {error}",
                where=str(self.path),
                remedy="run the mapper again",
            ) from error


@dataclass(frozen=True)
class LayerComparison:
    """One tensor of the mapper against ours."""

    layer: str
    sort: Sort
    values: int
    distance: Distance


def _signed(word: str) -> int:
    """A 32-bit two's complement number in hexadecimal."""
    value = int(word, 16)
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{word!r} has more than 32 bits")
    return value - (1 << 32) if value >= 1 << 31 else value


def list_dumps(folder: Path) -> tuple[Dump, ...]:
    """The files of a folder that can be compared, by name. Raises UserFileError where there are none."""
    if not folder.is_dir():
        raise UserFileError("there is no such folder", where=str(folder), remedy="name the mapper_quant folder")
    dumps = [dump for path in sorted(folder.iterdir()) if (dump := _dump(path)) is not None]
    if not dumps:
        raise UserFileError(
            "the folder holds no dumps of the mapper",
            where=str(folder),
            remedy="name the mapper_quant folder, and compile with log_level 2 or 3",
        )
    return tuple(dumps)


def _dump(path: Path) -> Dump | None:
    weight = _WEIGHT.match(path.name)
    if weight is not None:
        return Dump(path, weight["layer"], "weight", 0, ())
    name = _NAME.match(path.name)
    if name is None or (name["sort"] == "output") != name["form"].endswith(".hex"):
        return None
    shape = tuple(int(side) for side in name["shape"].split("_"))
    return Dump(path, name["layer"], "output" if name["sort"] == "output" else "input", int(name["index"]), shape)


def compare_dumps(
    dumps: Sequence[Dump], ours: Mapping[tuple[str, Sort, int], NDArray[Any]]
) -> tuple[tuple[LayerComparison, ...], tuple[str, ...]]:
    """Each dump against our value of the same layer, in the order of `ours`, and what could not be compared.

    ours: real values by (layer as emitted, sort, number of the tensor).
    """
    order = list(ours)
    results: dict[int, LayerComparison] = {}
    problems: list[str] = []
    for dump in dumps:
        key = (dump.layer, dump.sort, dump.index)
        if key not in ours:
            problems.append(f"{dump.path.name}: the network has no such layer")
            continue
        values, expected = dump.values(), np.asarray(ours[key], np.float64).ravel()
        if values.size != expected.size:
            problems.append(f"{dump.path.name}: {values.size} values, the layer has {expected.size}")
            continue
        results[order.index(key)] = LayerComparison(dump.layer, dump.sort, values.size, distance(expected, values))
    return tuple(results[index] for index in sorted(results)), tuple(problems)
