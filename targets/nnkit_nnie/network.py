"""A network divided between the NNIE and the CPU: its layers and its segments, in order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnkit.graph.view import GraphView
from nnkit.lowered import tagged_for_sixteen_bits
from nnkit.program.op import Placement
from nnkit_nnie.layers import Layer


@dataclass(frozen=True, eq=False)
class NnieSegment:
    """Layers that run on one side without a break. inputs: network inputs and tensors of earlier segments.

    outputs: what later segments read, network outputs, and tops marked `_report`.
    """

    index: int
    placement: Placement
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """The network as it will run: layers in order of segments, and what is worth saying about them.

    split_at: the warp at which it becomes two networks (`nnkit_nnie.parts`); None where it stays one.
    """

    graph: GraphView
    layers: tuple[Layer, ...]
    segments: tuple[NnieSegment, ...]
    notes: tuple[str, ...] = ()
    split_at: str | None = None

    def with_sixteen_bits(self, values: Sequence[str]) -> Network:
        """The network with the layers that make these values tagged `_hp`, beside those that are."""
        marked = set(values)

        def tagged(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
            return tuple(
                replace(layer, hp=True) if marked.intersection((*layer.inner, *layer.outputs)) else layer
                for layer in layers
            )

        known = [value for value in values if value in self.graph.producers]
        return replace(
            self,
            graph=replace(self.graph, model=tagged_for_sixteen_bits(self.graph.model, known)),
            layers=tagged(self.layers),
            segments=tuple(replace(segment, layers=tagged(segment.layers)) for segment in self.segments),
        )
