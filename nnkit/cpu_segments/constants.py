"""The constants of a segment's C file: tables and structures, each written once."""

from __future__ import annotations

from dataclasses import dataclass

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


class Constants:
    """Constants by content, numbered in the order in which they are needed.

    Args:
        weights: a pointer to all float tables, one behind the other; None: each is an array of its own.
    """

    def __init__(self, weights: str | None) -> None:
        self.weights = weights
        self.by_content: dict[tuple[str, bytes], Constant] = {}
        self.offsets: dict[bytes, int] = {}
        self.joined: list[NDArray[np.float32]] = []
        self.table_bytes = 0

    def table(self, array: NDArray[np.float32] | NDArray[np.int32]) -> str:
        """C of a pointer to the numbers."""
        if array.dtype == np.float32 and self.weights is not None:
            return self._joined(self.weights, array.astype(np.float32, copy=False))
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

    def _joined(self, pointer: str, array: NDArray[np.float32]) -> str:
        key = array.tobytes()
        if key not in self.offsets:
            self.offsets[key] = sum(each.size for each in self.joined)
            self.joined.append(array.reshape(-1))
            self.table_bytes += array.nbytes
        return f"{pointer} + {self.offsets[key]}"

    def struct(self, struct: Struct) -> str:
        """C of a pointer to the structure."""
        key = (struct.type, struct.text.encode())
        if key not in self.by_content:
            name = f"{struct.type}_{len(self.by_content)}"
            self.by_content[key] = Constant(struct.type, name, 0, struct.text)
        return f"&{self.by_content[key].name}"
