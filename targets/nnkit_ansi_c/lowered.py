"""What the ansi_c target lowers a network to: the network itself, once all of it is known to have C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.target import Lowered, Segment

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.graph.view import GraphView
    from nnkit_ansi_c.regions import Regions
    from nnkit_ansi_c.stripes import Stripes


def _in_stripes(model: Model, graph: GraphView, stripes: Stripes) -> Model:
    from nnkit.graph.view import GraphView
    from nnkit_ansi_c.stripes import estimated_bytes, head_of, in_stripes

    head = head_of(graph)
    return stripes.fitted(
        model,
        head,
        lambda end, count: 0 if head is None else estimated_bytes(graph, head, end, count),
        lambda end, count: in_stripes(model, end, count),
        lambda made: stripes.working_bytes(
            lambda: arena_bytes(GraphView.of(made), stripes.inputs_in_arena),
            lambda regions: arena_bytes(GraphView.of(made), regions=regions),
        ),
    )


def striped_arena_bytes(lowered: AnsiCLowered, inputs_in_arena: bool) -> int:
    """Bytes of the smallest arena that stripes were found to need."""
    from nnkit.graph.view import GraphView
    from nnkit_ansi_c.stripes import Stripes

    striped = _in_stripes(lowered.model, lowered.graph, Stripes(limit_bytes=0, inputs_in_arena=inputs_in_arena))
    return arena_bytes(GraphView.of(striped), inputs_in_arena)


def arena_bytes(graph: GraphView, inputs_in_arena: bool = False, regions: Regions | None = None) -> int:
    """Working memory of a network, of all regions where there are several.

    Raises ModelError naming every layer that there is no C for, DoesNotFitError where regions are too small.
    """
    from nnkit.cpu_segments.assemble import Names, assemble

    sources = {} if inputs_in_arena else dict.fromkeys(graph.inputs, "x")
    names = Names(sources, dict.fromkeys(graph.outputs, "y"), "weights")
    arena = assemble(graph, names, regions.memories() if regions else None).arena
    if regions is not None:
        regions.check_integers(arena, graph.outputs[0])
    return arena.float_bytes + arena.int_bytes


@dataclass(frozen=True, eq=False)
class AnsiCLowered(Lowered):
    """The network in nodes that there is C for; what does not depend on an input is constant."""

    graph: GraphView

    @classmethod
    def of(cls, model: Model, stripes: Stripes | None = None) -> AnsiCLowered:
        """Raises ModelError naming every layer that there is no C for, or an output that no input decides.

        stripes: in how many the first layers are computed; None: in one.
        """
        from nnkit.cpu_segments.embeddings import with_embeddings
        from nnkit.graph.view import GraphView

        constant = with_known_values(with_embeddings(model))
        graph = GraphView.of(constant)
        fixed = [name for name in graph.outputs if name in graph.constants or name in graph.inputs]
        if fixed or not graph.nodes:
            raise ModelError(
                f"the output {fixed[0] if fixed else graph.outputs[0]!r} does not depend on any layer",
                remedy="remove it from the network's outputs (the edit drop_output)",
            )
        arena_bytes(graph)
        if stripes is not None:
            constant = _in_stripes(constant, graph, stripes)
            graph = GraphView.of(constant)
        layers = tuple(dict.fromkeys(node.name for node in graph.nodes))
        return cls(constant, (Segment("cpu", layers),), graph)


def with_known_values(model: Model) -> Model:
    """The network with constants for what is known before it runs: prior boxes, which depend on shapes alone."""
    from onnx import numpy_helper

    from nnkit.c.float.calls import Known
    from nnkit.c.float.catalogue import code_of
    from nnkit.graph.refusal import Refused
    from nnkit.graph.view import GraphView

    graph = GraphView.of(model)
    known = {}
    for node in graph.nodes:
        try:
            code = code_of(graph, node)
        except Refused:
            continue  # told with all others, where the C is made
        if isinstance(code, Known):
            known[node.output] = code.array.reshape(graph.shape(node.output))
    if not known:
        return model
    proto = model.proto()
    kept = [node for node in proto.graph.node if not (node.output and node.output[0] in known)]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in known.items())
    return replace(model, onnx_bytes=proto.SerializeToString(deterministic=True))
