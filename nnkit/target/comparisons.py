"""What comes of comparing a build with what a vendor's tools made: dumps of values, compiled networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnkit.distance import Distance


@dataclass(frozen=True, eq=False)
class DumpComparison:
    """A build against the dumps of a vendor's tool. problems: what could not be compared, and why."""

    tensors: tuple[tuple[str, Distance], ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class NumberCount:
    """Numbers of one sort (`codes`, `biases` ...) in a compiled network: how many were compared, how many are ours.

    tied: of those that differ, how many do so by the last bits of a float alone.
    """

    name: str
    compared: int
    equal: int
    tied: int = 0

    @property
    def differing(self) -> int:
        """How many differ by more than the last bits of a float."""
        return self.compared - self.equal - self.tied

    def as_json(self) -> dict[str, int]:
        """`codes`, `codes_equal`, `codes_tied`, by its own name."""
        return {self.name: self.compared, f"{self.name}_equal": self.equal, f"{self.name}_tied": self.tied}


@dataclass(frozen=True)
class CompiledLayer:
    """The numbers of one layer in a compiled network."""

    layer: str
    numbers: tuple[NumberCount, ...]

    @property
    def differs(self) -> bool:
        """Whether a number differs by more than the last bits of a float."""
        return any(count.differing for count in self.numbers)

    def as_json(self) -> dict[str, Any]:
        """Its name and counts."""
        return {"layer": self.layer, **_counts_as_json(self.numbers)}


@dataclass(frozen=True)
class CompiledComparison:
    """A build against a network that a vendor's compiler made of it.

    numbers: of all layers. records_unread: pieces of the file that could not be compared. layers: those in which a
    number differs. notes: what else there is to say.
    """

    numbers: tuple[NumberCount, ...]
    records_unread: int
    layers: tuple[CompiledLayer, ...]
    notes: tuple[str, ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """The layers that differ by more than the last bits of a float."""
        return tuple(each.layer for each in self.layers if each.differs)

    def as_json(self) -> dict[str, Any]:
        """What `nnkit verify-wk --json` prints."""
        return {
            **_counts_as_json(self.numbers),
            "records_unread": self.records_unread,
            "layers": [each.as_json() for each in self.layers],
            "notes": list(self.notes),
        }


def _counts_as_json(numbers: Sequence[NumberCount]) -> dict[str, int]:
    return {key: value for count in numbers for key, value in count.as_json().items()}
