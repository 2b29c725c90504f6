"""What a target lowers the restructured network to: the network as it will run, with its segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nnkit.graph import Model
    from nnkit.program.op import Placement


@dataclass(frozen=True)
class Segment:
    """Consecutive layers that run on one side, by name."""

    placement: Placement
    layers: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Lowered:
    """The restructured network, read once. A target derives its own class, with its own layers in it.

    model: as restructured. segments: in order of execution; together they hold every layer. Arrays are read-only.
    """

    model: Model
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        for array in _arrays(self):
            array.setflags(write=False)

    @property
    def keeps_formats(self) -> bool:
        """Whether no calibrated range counts: every value of the network is quantised already, and stays so."""
        return False

    def with_sixteen_bits(self, values: Sequence[str]) -> Self:
        """The network with the layers that make these values in 16 bits, beside those that are tagged so.

        A target whose layers hold their tags marks them, too; it is asked only where it gives a `diagnosis`.
        """
        return replace(self, model=tagged_for_sixteen_bits(self.model, values))


def tagged_for_sixteen_bits(model: Model, values: Sequence[str]) -> Model:
    """The model with the layers that make `values` tagged for 16 bits, beside those that were."""
    tags = model.tags
    for value in values:
        tags = tags.with_tags(value, replace(tags.of(value), hp=True))
    return replace(model, tags=tags)


def _arrays(value: Any) -> Iterator[NDArray[Any]]:
    import numpy as np

    from nnkit.graph.view import GraphView

    if isinstance(value, GraphView):
        return  # its constants are read-only, and made when they are first asked for
    if isinstance(value, np.ndarray):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _arrays(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _arrays(entry)
    elif isinstance(value, tuple):
        for entry in value:
            yield from _arrays(entry)
