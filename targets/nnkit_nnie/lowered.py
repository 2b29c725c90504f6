"""What the nnie target lowers a network to: everything that its later stages read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from nnkit.target import Lowered, Segment

if TYPE_CHECKING:
    from nnkit.cpu_segments import SegmentSource
    from nnkit.graph import Model
    from nnkit_nnie.limits.context import Division
    from nnkit_nnie.network import Network
    from nnkit_nnie.parts import Part


@dataclass(frozen=True, eq=False)
class NnieLowered(Lowered):
    """The network as it is divided between the NNIE and the CPU, every limit and tag rule checked.

    parts: the networks that the mapper compiles.
    uncorrected: the network before its weights were corrected; None where they were not.
    """

    network: Network
    parts: tuple[Part, ...]
    uncorrected: NnieLowered | None = None

    @cached_property
    def cpu_code(self) -> Mapping[int, SegmentSource]:
        """C of each CPU segment, by the segment's index; made when first asked for, which a check never does."""
        return _cpu_code(self.network)

    @classmethod
    def of(cls, model: Model, division: Division) -> NnieLowered:
        """Raises ModelError naming at once all that stands against the network; else why it cannot be split."""
        from nnkit.cpu_segments.embeddings import with_embeddings
        from nnkit_nnie.parts import parts_of
        from nnkit_nnie.segments import divide

        model = with_embeddings(model)
        network = divide(model, division)
        segments = tuple(
            Segment(segment.placement, tuple(layer.name for layer in segment.layers)) for segment in network.segments
        )
        return cls(model, segments, network, parts_of(network, division))

    def with_sixteen_bits(self, values: Sequence[str]) -> Self:
        """The network with the layers that make these values in 16 bits, beside those that are tagged so."""
        return replace(
            super().with_sixteen_bits(values),
            network=self.network.with_sixteen_bits(values),
            parts=tuple(part.with_sixteen_bits(values) for part in self.parts),
        )


def _cpu_code(network: Network) -> Mapping[int, SegmentSource]:
    """C of each CPU segment; that there is C for each of its layers was checked when the network was divided."""
    from nnkit.cpu_segments import segment_source

    sources: dict[int, SegmentSource] = {}
    for segment in network.segments:
        if segment.placement == "cpu":
            nodes = sorted((n for layer in segment.layers for n in layer.nodes), key=lambda node: node.index)
            part = network.graph.part(nodes, segment.inputs, segment.outputs)
            sources[segment.index] = segment_source(part, f"segment{segment.index}")
    return MappingProxyType(sources)
