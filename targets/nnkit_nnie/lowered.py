"""What the nnie target lowers a network to: everything that its later stages read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from nnkit.errors import ModelError
from nnkit.target import Lowered, Segment

if TYPE_CHECKING:
    from nnkit.cpu_segments import SegmentSource
    from nnkit.graph import Model
    from nnkit_nnie.context import Division
    from nnkit_nnie.network import Network
    from nnkit_nnie.parts import Part


@dataclass(frozen=True, eq=False)
class NnieLowered(Lowered):
    """The network as it is divided between the NNIE and the CPU, every limit and tag rule checked.

    parts: the networks that the mapper compiles. cpu_code: C of each CPU segment, by the segment's index.
    """

    network: Network
    parts: tuple[Part, ...]
    cpu_code: Mapping[int, SegmentSource]

    @classmethod
    def of(cls, model: Model, division: Division) -> NnieLowered:
        """Raises ModelError naming every violation at once; else what Caffe, a split or C cannot be made of."""
        from nnkit_nnie.parts import parts_of
        from nnkit_nnie.segments import divide

        network = divide(model, division)
        segments = tuple(
            Segment(segment.placement, tuple(layer.name for layer in segment.layers)) for segment in network.segments
        )
        cpu_code = _cpu_code(network)
        return cls(model, segments, network, parts_of(network, division), cpu_code)

    def with_sixteen_bits(self, values: Sequence[str]) -> Self:
        """The network with the layers that make these values in 16 bits, beside those that are tagged so."""
        return replace(
            super().with_sixteen_bits(values),
            network=self.network.with_sixteen_bits(values),
            parts=tuple(part.with_sixteen_bits(values) for part in self.parts),
        )


def _cpu_code(network: Network) -> Mapping[int, SegmentSource]:
    """Raises ModelError naming every CPU layer for which there is no C."""
    from nnkit.cpu_segments import segment_source
    from nnkit.graph.subgraph import subgraph

    sources: dict[int, SegmentSource] = {}
    refused: list[str] = []
    for segment in network.segments:
        if segment.placement != "cpu":
            continue
        nodes = [node for layer in segment.layers for node in layer.nodes]
        model = subgraph(network.graph, nodes, segment.inputs, segment.outputs)
        try:
            sources[segment.index] = segment_source(model, f"segment{segment.index}")
        except ModelError as error:
            refused.append(f"segment {segment.index}: {error.reason}")
    if refused:
        raise ModelError(
            "no C can be generated for the CPU: " + "; ".join(refused),
            remedy="replace these layers, or cut the network before them",
        )
    return MappingProxyType(sources)
