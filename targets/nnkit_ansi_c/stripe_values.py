"""Names of the values of a stripe, and which rows of the whole network's values they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnkit_ansi_c.row_plan import Rows

MARK = ".rows"
"""Between the name of a value and the number of the stripe."""


def origin(value: str) -> str:
    """The value that a stripe's value is a part of; any other is its own."""
    name, mark, number = value.rpartition(MARK)
    return name if mark and number.replace(".", "").isdigit() else value


def striped_layers(values: Iterable[str]) -> int:
    """How many layers of the whole network are computed in stripes. values: of all layers."""
    return len({origin(value) for value in values if origin(value) != value})


@dataclass(frozen=True)
class Part:
    """Some rows of a value. whole: the stripe's value that `rows`, counted in it, are cut from; None: nothing is cut.

    rows may be asked for several times; they are cut the first time.
    """

    name: str
    whole: str | None = None
    rows: Rows = (0, 0)


class StripeValues:
    """The values of one stripe, as its layers are added one by one.

    Args:
        source: the network's input, which every stripe reads as it is.
        height: its rows.
        number: the stripe's.
    """

    def __init__(self, source: str, height: int, number: int) -> None:
        self._source, self._number = source, number
        self._rows: dict[str, Rows] = {source: (0, height)}
        self._cut: set[str] = set()

    def named(self, layer: str) -> str:
        """What a layer is called in this stripe, or a value that it makes."""
        return f"{layer}{MARK}{self._number}"

    def add(self, value: str, rows: Rows) -> str:
        """The stripe's name for these rows of a value, which a layer of it makes."""
        self._rows[value] = rows
        return self.named(value)

    def part(self, value: str, rows: Rows) -> Part:
        """These rows of a value that the stripe has: what it has, or a cut."""
        made = self._rows[value]
        own = value if value == self._source else self.named(value)
        if rows == made:
            return Part(own)
        name = f"{self.named(value)}.{rows[0]}.{rows[1]}"
        if name in self._cut:
            return Part(name)
        self._cut.add(name)
        return Part(name, own, (rows[0] - made[0], rows[1] - made[0]))
