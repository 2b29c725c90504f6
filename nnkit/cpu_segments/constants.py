"""The constants of a segment's C file: tables and structures, each written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nnkit.c.float.calls import Struct
from nnkit.c.text import float32_literal

_PER_LINE = 8


@dataclass(frozen=True)
class Constant:
    """`static const <type> <name>[<count>] = <text>`; count is 0 for a structure."""

    type: str
    name: str
    count: int
    text: str


def weight_pointer(weights: str, region: str) -> str:
    """What the calls name the pointer to the weights of a memory; of the only one, where it is empty."""
    return f"{weights}_in_{region}" if region else weights


class Constants:
    """Constants by content, numbered in the order in which they are needed.

    Args:
        weights: a pointer to all float tables, one behind the other; None: each is an array of its own.
        regions: by a table's content, the memory that it lies in, where there are several: each has its pointer.
    """

    def __init__(self, weights: str | None, regions: Mapping[bytes, str] = MappingProxyType({})) -> None:
        self.weights = weights
        self.regions = regions
        self.by_content: dict[tuple[str, bytes], Constant] = {}
        self.offsets: dict[bytes, int] = {}
        self._joined: dict[str, list[NDArray[np.float32]]] = {}
        self.table_bytes = 0

    def table(self, array: NDArray[np.float32] | NDArray[np.int32]) -> str:
        """C of a pointer to the numbers."""
        if array.dtype == np.float32 and self.weights is not None:
            return self._place(self.weights, array.astype(np.float32, copy=False))
        kind = "float" if array.dtype == np.float32 else "int"
        key = (kind, array.tobytes())
        if key not in self.by_content:
            values = array.reshape(-1).tolist()
            words = [float32_literal(v) for v in values] if kind == "float" else [str(v) for v in values]
            lines = [", ".join(words[i : i + _PER_LINE]) for i in range(0, len(words), _PER_LINE)]
            text = "{" + ",\n    ".join(lines) + "}"
            prefix = "nnkit_weights" if kind == "float" else "nnkit_table"
            self.by_content[key] = Constant(kind, f"{prefix}_{len(self.by_content)}", len(values), text)
            self.table_bytes += array.nbytes
        return self.by_content[key].name

    def joined(self) -> Mapping[str, NDArray[np.float32]]:
        """The tables behind each pointer, by memory; `""` is the only one."""
        return {region: np.concatenate(tables) for region, tables in self._joined.items()}

    def _place(self, pointer: str, array: NDArray[np.float32]) -> str:
        key = array.tobytes()
        region = self.regions[key] if self.regions else ""
        if key not in self.offsets:
            tables = self._joined.setdefault(region, [])
            self.offsets[key] = sum(each.size for each in tables)
            tables.append(array.reshape(-1))
            self.table_bytes += array.nbytes
        return f"{weight_pointer(pointer, region)} + {self.offsets[key]}"

    def struct(self, struct: Struct) -> str:
        """C of a pointer to the structure."""
        key = (struct.type, struct.text.encode())
        if key not in self.by_content:
            name = f"{struct.type}_{len(self.by_content)}"
            self.by_content[key] = Constant(struct.type, name, 0, struct.text)
        return f"&{self.by_content[key].name}"
