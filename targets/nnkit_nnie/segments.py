"""Dividing a network into segments: NNIE -> CPU -> NNIE -> CPU ..., each with the tensors that enter and leave it.

A layer goes into the earliest segment of its side in which everything it reads is at hand, so that there are as few
segments as the longest chain of changes between the sides demands. The first segment is the NNIE's, unless none of
its layers can run before one of the CPU (`nnkit_nnie.front`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnkit.constraints import Violation, constraint_text, violation
from nnkit.graph import Model
from nnkit.graph.view import GraphView
from nnkit_nnie.fixed_values import with_fixed_values
from nnkit_nnie.front import front_note, front_of, network_behind_front
from nnkit_nnie.joining import SMALL, Arranged, joined
from nnkit_nnie.layer_kinds import WARP
from nnkit_nnie.layers import Layer, layers_of
from nnkit_nnie.limits.constraints import INPUT_RULES, LAYER_LIMITS, reshape_keeps_batch
from nnkit_nnie.limits.context import Context, Division, context_of
from nnkit_nnie.limits.refusals import caffe_refusals, refused_by_c, refused_by_caffe, refusing_error
from nnkit_nnie.limits.segment_limits import most_segments, segment_violations
from nnkit_nnie.limits.tag_rules import (
    CPU_ON_DATA,
    TAG_RULES,
    report_notes,
    reports,
    tagged_inputs,
)
from nnkit_nnie.network import Network, NnieSegment


@dataclass(frozen=True, eq=False)
class Divided:
    """A network as it would run, and all that stands against it: limits, tags, Caffe, the C of the CPU."""

    network: Network
    context: Context
    violations: tuple[Violation, ...]


def divide(model: Model, division: Division) -> Network:
    """Layers and their segments.

    Raises ModelError naming at once everything that stands against it: limits of layers and of segments, rules for
    tags, what Caffe cannot express, and what there is no C for.
    """
    division_made = divided(model, division)
    if division_made.violations:
        raise refusing_error(division_made.violations, division_made.network.layers)
    return division_made.network


def divided(model: Model, division: Division) -> Divided:
    """As `divide`, with what stands against it beside the network."""
    graph = GraphView.of(with_fixed_values(model))
    layers = layers_of(graph, division.custom)
    notes: list[str] = []
    if division.outside_limits_custom:
        layers, moved = _moved_to_cpu(graph, layers, division)
        notes += moved
    layers, moved = _reshapes_for_the_cpu(graph, layers, division)
    notes += moved
    warp = next((layer for layer in layers if layer.kind == WARP), None) if division.split_at_warp else None

    def arrange(placed: tuple[Layer, ...]) -> Arranged:
        context = context_of(graph, placed, division)
        return Arranged(
            placed, context, _segments(graph, placed, context, warp), tuple(_layer_violations(placed, context))
        )

    arranged, remedy = arrange(layers), ""
    most = most_segments(arranged.segments, arranged.context)
    if len(arranged.segments) > most and warp is None and division.join_segments != "none":
        fewer = joined(arranged, arrange, most)
        if fewer is not None and (fewer.share <= SMALL or division.join_segments == "any"):
            notes.append(fewer.note(len(arranged.segments)))
            arranged = fewer.arranged
        elif fewer is not None:
            remedy = fewer.remedy()
    context, segments = arranged.context, arranged.segments
    violations = [*arranged.violations, *segment_violations(segments, context, fewer=remedy)]
    notes += report_notes(arranged.layers, context)
    front = front_of(segments)
    notes += [front_note(front)] if front is not None else []
    ordered = tuple(layer for segment in segments for layer in segment.layers)
    network = Network(graph, ordered, segments, tuple(notes), warp.name if warp is not None else None)
    told = frozenset(each.place for each in violations if each.movable)
    violations += refused_by_caffe(network_behind_front(network), told)
    return Divided(network, context, tuple(violations))


def _moved_to_cpu(
    graph: GraphView, layers: tuple[Layer, ...], division: Division
) -> tuple[tuple[Layer, ...], list[str]]:
    """Layers outside the limits written as Custom, until those that are left are all within."""
    notes: list[str] = []
    while True:
        context = context_of(graph, layers, division)
        reasons = {
            layer.name: f"{constraint_text(limit, context.limits)}; found {beyond}"
            for layer in layers
            if layer.placement == "npu"
            for limit in reversed(LAYER_LIMITS)
            if (beyond := limit(layer, context)) is not None
        }
        if not reasons:
            refusals = caffe_refusals(Network(graph, layers, ()))
            reasons = {
                layer.name: f"Caffe cannot express it: {refusals[layer.name].reason}"
                for layer in layers
                if layer.name in refusals and layer.placement == "npu"
            }
        if not reasons:
            return layers, notes
        notes += [f"layer {name} runs on the CPU: {reason}" for name, reason in reasons.items()]
        layers = tuple(
            replace(layer, custom=True, hp=False, why_custom=reasons[layer.name]) if layer.name in reasons else layer
            for layer in layers
        )


def _reshapes_for_the_cpu(
    graph: GraphView, layers: tuple[Layer, ...], division: Division
) -> tuple[tuple[Layer, ...], list[str]]:
    """A layer that only changes the shape of what `_cpu` layers give, for the CPU or as a result, runs there too.

    On the NNIE it would cost two segments, and round to S20.12 what was float before and is float after. So does one
    whose result has other than four dimensions and is the network's, which the NNIE cannot write; notes say which.
    """
    context = context_of(graph, layers, division)

    def among(layer: Layer) -> bool:
        sources = [context.producers.get(name) for name in layer.inputs]
        readers = [reader for name in layer.outputs for reader in context.consumers.get(name, ())]
        return (
            layer.kind in ("Flatten", "Reshape")
            and all(source is not None and source.cpu for source in sources)
            and all(reader.placement == "cpu" for reader in readers)
        )

    def last(layer: Layer) -> bool:
        read = any(context.consumers.get(name) for name in layer.outputs)
        return not (read or layer.in_place) and reshape_keeps_batch(layer, context) is not None

    moved = {layer.name for layer in layers if layer.placement == "npu" and (among(layer) or last(layer))}
    notes = [
        f"layer {layer.name} runs on the CPU: it gives the network's result other than four dimensions"
        for layer in layers
        if layer.name in moved and not among(layer)
    ]
    return tuple(replace(layer, cpu=True) if layer.name in moved else layer for layer in layers), notes


def _layer_violations(layers: Sequence[Layer], context: Context) -> list[Violation]:
    violations = [
        Violation(name, "data", CPU_ON_DATA, "take the tag off the input") for name in tagged_inputs(context)
    ]
    for layer in layers:
        on_npu = layer.placement == "npu"
        if not on_npu:
            violations += refused_by_c(context.graph, layer)
        for limit in (*TAG_RULES, *INPUT_RULES, *(LAYER_LIMITS if on_npu else ())):
            beyond = limit(layer, context)
            if beyond is not None:
                movable = limit in LAYER_LIMITS
                violations.append(violation(limit, beyond, layer.name, layer.kind, context.limits, movable=movable))
    return violations


def _segments(
    graph: GraphView, layers: Sequence[Layer], context: Context, warp: Layer | None
) -> tuple[NnieSegment, ...]:
    """warp: layers that it does not wait for are another network's, and come behind it."""
    level: dict[str, int] = {}
    before = _before(warp, context) if warp is not None else frozenset(layer.name for layer in layers)
    for layer in sorted(layers, key=lambda each: each.name not in before):  # stable: otherwise in order
        side = 0 if layer.placement == "npu" else 1
        earliest = side
        if layer.name not in before and warp is not None:
            earliest = level[warp.name] + 1 + side
        for name in layer.inputs:
            source = context.producers.get(name)
            if source is None:
                continue
            at = level[source.name]
            earliest = max(earliest, at if at % 2 == side else at + 1)
        level[layer.name] = earliest
    used = sorted(set(level.values()))
    members = {index: tuple(layer for layer in layers if level[layer.name] == index) for index in used}
    return tuple(_segment(graph, number, members[index], context) for number, index in enumerate(used))


def _before(layer: Layer, context: Context) -> frozenset[str]:
    """The layer and all that it waits for, by name."""
    waiting, names = [layer], {layer.name}
    while waiting:
        sources = (context.producers.get(name) for name in waiting.pop().inputs)
        new = [source for source in sources if source is not None and source.name not in names]
        names.update(source.name for source in new)
        waiting += new
    return frozenset(names)


def _segment(graph: GraphView, number: int, layers: tuple[Layer, ...], context: Context) -> NnieSegment:
    names = {layer.name for layer in layers}
    produced = [(name, layer) for layer in layers for name in layer.outputs]
    own = {name for name, _ in produced}
    inputs = dict.fromkeys(name for layer in layers for name in layer.inputs if name not in own)
    outputs = [
        name
        for name, layer in produced
        if name in graph.outputs
        or not context.consumers.get(name)
        or any(reader.name not in names for reader in context.consumers[name])
        or reports(name, layer, context)
    ]
    return NnieSegment(number, layers[0].placement, layers, tuple(inputs), tuple(outputs))
