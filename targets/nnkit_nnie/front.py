"""A network that begins on the CPU: its front, which the CPU runs, and what is left for the mapper.

No layer that runs before the NNIE has a place in the prototxt. So the mapper's network begins behind the front: what
the front gives to later segments are inputs of it, vectors of S20.12, beside the images that the NNIE reads itself.
Its calibration inputs are the front's values on the recipe's, and the board's program runs the front's C first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph import LayerTags
from nnkit.graph.subgraph import subgraph
from nnkit.graph.view import GraphView
from nnkit_nnie.layers import Layer
from nnkit_nnie.network import Network, NnieSegment

if TYPE_CHECKING:
    from nnkit.program import Program
    from nnkit.samples import Sample


def front_of(segments: Sequence[NnieSegment]) -> NnieSegment | None:
    """The CPU segment that runs before the first of the NNIE; None where the NNIE begins, or runs nothing."""
    begins = segments and segments[0].placement == "cpu"
    return segments[0] if begins and len(segments) > 1 else None


def front_note(front: NnieSegment) -> str:
    """What a build says of it."""
    layers = f"{front.layers[0].name} to {front.layers[-1].name}" if len(front.layers) > 1 else front.layers[0].name
    return (
        f"the network begins on the CPU, with {layers}: the mapper gets what follows, and board/ runs these layers "
        f"first; they give the NNIE {', '.join(front.outputs)} in S20.12"
    )


def network_behind_front(network: Network) -> Network:
    """The network without its front; a network that the NNIE begins is returned as it is."""
    front = front_of(network.segments)
    if front is None:
        return network
    graph, kept = network.graph, network.segments[1:]
    nodes = sorted((n for segment in kept for layer in segment.layers for n in layer.nodes), key=lambda n: n.index)
    made = {name for node in nodes for name in node.results}
    read = {name for segment in kept for name in segment.inputs}
    model = subgraph(
        graph,
        nodes,
        [name for name in (*graph.inputs, *front.outputs) if name in read],
        [name for name in graph.outputs if name in made],
    )
    tags = LayerTags({name: each for name, each in graph.tags.values.items() if name in made})
    behind = GraphView.of(replace(model, tags=tags))
    own = dict(zip((node.index for node in nodes), behind.nodes, strict=True))

    def moved(layer: Layer) -> Layer:
        return replace(layer, nodes=tuple(own[node.index] for node in layer.nodes))

    segments = tuple(
        replace(segment, index=index, layers=tuple(moved(layer) for layer in segment.layers))
        for index, segment in enumerate(kept)
    )
    return Network(behind, tuple(layer for segment in segments for layer in segment.layers), segments)


def samples_behind_front(network: Network, program: Program, samples: Sequence[Sample]) -> list[Sample]:
    """Each sample of the network with what the front makes of it, real units.

    program: of the whole network.
    """
    from nnkit.program.inputs import quantized_inputs
    from nnkit.simulate import simulate
    from nnkit_nnie.gfpq.ops import layer_of

    front = front_of(network.segments)
    if front is None:
        return list(samples)
    names = {layer.name for layer in front.layers}
    ops = tuple(op for op in program.ops if layer_of(op) in names)
    part = replace(program, ops=ops, outputs=front.outputs)
    fed = []
    for sample in samples:
        stored = simulate(part, quantized_inputs(part, sample))
        given = {
            name: np.asarray(part.tensors[name].format.dequantize(stored[name]), np.float32).reshape(
                network.graph.shape(name)
            )
            for name in front.outputs
        }
        fed.append(replace(sample, inputs={**sample.inputs, **given}))
    return fed
