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
from nnkit.reading import read_text
from nnkit_nnie.gfpq.ops import STORED

Sort: TypeAlias = Literal["output", "input", "weight"]
Key: TypeAlias = tuple[str, Sort, int]
"""Layer as emitted, sort, number of the tensor."""

_NAME = re.compile(
    r"^(?P<layer>.+)_(?P<sort>output|input)(?P<index>\d+)_(?P<shape>\d+_\d+_\d+)_"
    r"(?P<form>quant\.linear\.hex|anti_quant\.linear\.float)$"
)
_WEIGHT = re.compile(r"^(?P<layer>.+)_weight-anti\.float$")
_GROUP = re.compile(r"^(?P<layer>.+)_group_(?P<group>\d+)$")
_SHOWN = 40
"""Characters of a word in a message."""


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
        what, remedy = "this dump of the mapper", "run the mapper again"
        words = read_text(self.path, what=what, remedy=remedy).split()
        try:
            if self.path.name.endswith(".hex"):
                return STORED.dequantize(np.asarray([_signed(word) for word in words], np.int64))
            return np.asarray([float(word) for word in words], np.float64)
        except ValueError as error:
            raise UserFileError(f"{what} cannot be read: {error}", where=str(self.path), remedy=remedy) from error


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
        raise ValueError(f"{word[:_SHOWN]!r} has more than 32 bits")
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
    dumps: Sequence[Dump], ours: Mapping[Key, NDArray[Any]]
) -> tuple[tuple[LayerComparison, ...], tuple[str, ...]]:
    """Each dump against our value of the same layer, in the order of `ours`, and what could not be compared.

    The mapper divides a layer of groups into one for each, `<layer>_group_<n>`: their dumps are put together by n,
    from whatever number they count, and compared as the layer that they are.

    ours: real values.
    """
    results: dict[Key, LayerComparison] = {}
    problems: list[str] = []
    groups: dict[Key, dict[int, Dump]] = {}
    for dump in dumps:
        key = (dump.layer, dump.sort, dump.index)
        split = _GROUP.match(dump.layer)
        if key in ours:
            _compare(key, dump.values(), dump.path.name, ours, results, problems)
        elif split is not None and (split["layer"], dump.sort, dump.index) in ours:
            groups.setdefault((split["layer"], dump.sort, dump.index), {})[int(split["group"])] = dump
        else:
            problems.append(f"{dump.path.name}: the network has no such layer")
    for key, parts in groups.items():
        values = np.concatenate([parts[number].values() for number in sorted(parts)])
        name = f"{key[0]}_group_{min(parts)} to {max(parts)} {key[1]}"
        if sorted(parts) != list(range(min(parts), max(parts) + 1)):
            problems.append(f"{name}: {len(parts)} dumps, some between are not there")
        else:
            _compare(key, values, name, ours, results, problems)
    return tuple(results[key] for key in ours if key in results), tuple(problems)


def _compare(
    key: Key,
    values: NDArray[np.float64],
    name: str,
    ours: Mapping[Key, NDArray[Any]],
    results: dict[Key, LayerComparison],
    problems: list[str],
) -> None:
    """Add the comparison of a layer's tensor, or the problem where it has another size. name: of what was dumped."""
    expected = np.asarray(ours[key], np.float64).ravel()
    if values.size != expected.size:
        problems.append(f"{name}: {values.size} values, the layer has {expected.size}")
        return
    results[key] = LayerComparison(key[0], key[1], values.size, distance(expected, values))
