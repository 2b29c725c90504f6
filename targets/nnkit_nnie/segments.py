"""Segments: NNIE -> CPU -> NNIE -> CPU ..., in order, each with the tensors that enter and leave it.

A layer goes into the earliest segment of its side in which everything it reads is at hand, so that there are as few
segments as the longest chain of changes between the sides demands. The first segment is the NNIE's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnkit.graph import Model
from nnkit.program.ops import Placement
from nnkit_nnie.chips import ChipName
from nnkit_nnie.constraints import LAYER_LIMITS
from nnkit_nnie.fixed_values import with_fixed_values
from nnkit_nnie.graph import Graph
from nnkit_nnie.layer_kinds import ROI_KINDS, WARP
from nnkit_nnie.layers import Layer, layers_of
from nnkit_nnie.limits import Context, Violation, context_of, limit_text, violation, violations_error
from nnkit_nnie.tag_rules import (
    CPU_ON_DATA,
    TAG_RULES,
    cpu_does_not_follow_data,
    report_notes,
    reports,
    tagged_inputs,
)


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

    graph: Graph
    layers: tuple[Layer, ...]
    segments: tuple[NnieSegment, ...]
    notes: tuple[str, ...] = ()
    split_at: str | None = None


@dataclass(frozen=True)
class Division:
    """What decides how a network is divided; from the options."""

    chip: ChipName
    compile_mode: int = 0
    custom: tuple[str, ...] = ()
    outside_limits_custom: bool = False
    split_at_warp: bool = True


def divide(model: Model, division: Division) -> Network:
    """Layers, checked against every limit, and their segments.

    Raises ModelError naming every violation at once: of layers, of tags, of segments.
    """
    graph = Graph(with_fixed_values(model))
    layers = layers_of(graph, division.custom)
    notes: list[str] = []
    if division.outside_limits_custom:
        layers, moved = _moved_to_cpu(graph, layers, division)
        notes += moved
    layers = _reshapes_among_cpu_layers(graph, layers, division)
    context = context_of(graph, layers, division.compile_mode, division.chip)
    found = _layer_violations(layers, context)
    warp = next((layer for layer in layers if layer.kind == WARP), None) if division.split_at_warp else None
    segments = _segments(graph, layers, context, warp)
    found += _segment_violations(segments, context)
    if found:
        raise violations_error(found)
    notes += report_notes(layers, context)
    ordered = tuple(layer for segment in segments for layer in segment.layers)
    return Network(graph, ordered, segments, tuple(notes), warp.name if warp is not None else None)


def _moved_to_cpu(graph: Graph, layers: tuple[Layer, ...], division: Division) -> tuple[tuple[Layer, ...], list[str]]:
    """Layers outside the limits written as Custom, until those that are left are all within."""
    notes: list[str] = []
    while True:
        context = context_of(graph, layers, division.compile_mode, division.chip)
        reasons = {
            layer.name: f"{limit_text(limit, context.limits)}; found {found}"
            for layer in layers
            if layer.placement == "npu"
            for limit in reversed(LAYER_LIMITS)
            if (found := limit(layer, context)) is not None
        }
        if not reasons:
            return layers, notes
        notes += [f"layer {name} runs on the CPU: {reason}" for name, reason in reasons.items()]
        layers = tuple(
            replace(layer, custom=True, hp=False, why_custom=reasons[layer.name]) if layer.name in reasons else layer
            for layer in layers
        )


def _reshapes_among_cpu_layers(graph: Graph, layers: tuple[Layer, ...], division: Division) -> tuple[Layer, ...]:
    """A layer that only changes the shape of what `_cpu` layers give, for the CPU or as a result, runs there too.

    On the NNIE it would cost two segments, and round to S20.12 what was float before and is float after.
    """
    context = context_of(graph, layers, division.compile_mode, division.chip)

    def among(layer: Layer) -> bool:
        sources = [context.producers.get(name) for name in layer.inputs]
        readers = [reader for name in layer.outputs for reader in context.consumers.get(name, ())]
        return (
            layer.kind in ("Flatten", "Reshape")
            and all(source is not None and source.cpu for source in sources)
            and all(reader.placement == "cpu" for reader in readers)
        )

    return tuple(replace(layer, cpu=True) if layer.placement == "npu" and among(layer) else layer for layer in layers)


def _layer_violations(layers: Sequence[Layer], context: Context) -> list[Violation]:
    found = [Violation(name, "data", CPU_ON_DATA, "take the tag off the input") for name in tagged_inputs(context)]
    for layer in layers:
        on_npu = layer.placement == "npu"
        if not on_npu:
            found += _without_c(layer)
        for limit in (*TAG_RULES, *(LAYER_LIMITS if on_npu else ())):
            beyond = limit(layer, context)
            if beyond is not None:
                movable = limit in LAYER_LIMITS
                found.append(violation(limit, beyond, layer.name, layer.kind, context.limits, movable=movable))
    return found


def _without_c(layer: Layer) -> list[Violation]:
    """The operators of a CPU layer that no C can be generated for."""
    from nnkit.cpu_segments import LOWERINGS
    from nnkit.custom_ops import CUSTOM_OPS

    lacking = [
        node.op_type
        for node in layer.nodes
        if node.op_type == "Custom"
        or (node.op_type not in LOWERINGS if not node.domain else node.op_type not in CUSTOM_OPS)
    ]
    reason = "it runs on the CPU, and nnkit has no C for "
    remedy = "replace it by operators that there is C for (docs/cpu_segments.md), or cut the network before it"
    return [Violation(layer.name, layer.kind, reason + op, remedy) for op in dict.fromkeys(lacking)]


def _segments(graph: Graph, layers: Sequence[Layer], context: Context, warp: Layer | None) -> tuple[NnieSegment, ...]:
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
    waiting, found = [layer], {layer.name}
    while waiting:
        sources = (context.producers.get(name) for name in waiting.pop().inputs)
        new = [source for source in sources if source is not None and source.name not in found]
        found.update(source.name for source in new)
        waiting += new
    return frozenset(found)


def _segment(graph: Graph, number: int, layers: tuple[Layer, ...], context: Context) -> NnieSegment:
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


def segments_are_few(segments: Sequence[NnieSegment], context: Context) -> str | None:
    """a network has at most {max_segments} segments
    fix: move layers between the NNIE and the CPU so that the sides change less often"""
    return f"{len(segments)}" if len(segments) > int(context.limits["max_segments"]) else None


def segment_tensors_are_few(segment: NnieSegment, context: Context) -> str | None:
    """a segment has at most {max_segment_tensors} inputs and {max_segment_tensors} outputs
    fix: concatenate tensors, take `_report` tags off, or move layers to the other side"""
    inputs, outputs = len(segment.inputs), len(segment.outputs)
    most = int(context.limits["max_segment_tensors"])
    return f"{inputs} and {outputs}" if max(inputs, outputs) > most else None


def segment_roi_are_few(segment: NnieSegment, context: Context) -> str | None:
    """a segment has at most {max_roi_per_segment} ROI layers
    fix: split the network into several"""
    return _listed(_roi_layers([segment]), int(context.limits["max_roi_per_segment"]))


def roi_are_few(segments: Sequence[NnieSegment], context: Context) -> str | None:
    """a network has at most {max_roi} ROI layers
    fix: split the network into several"""
    return _listed(_roi_layers(segments), int(context.limits["max_roi"]))


def _roi_layers(segments: Sequence[NnieSegment]) -> list[str]:
    layers = (layer for segment in segments for layer in segment.layers)
    return [layer.name for layer in layers if layer.kind in ROI_KINDS and layer.placement == "npu"]


def _listed(layers: Sequence[str], most: int) -> str | None:
    return f"{len(layers)} ({', '.join(layers)})" if len(layers) > most else None


def begins_on_the_npu(segments: Sequence[NnieSegment], context: Context) -> str | None:
    """the network begins on the NNIE
    fix: what runs before the first layer of the NNIE belongs outside the network"""
    if not segments or segments[0].placement == "npu":
        return None
    layers = segments[0].layers
    if any(cpu_does_not_follow_data(layer, context) for layer in layers):
        return None  # told already
    return f"{layers[0].name} ({layers[0].kind}) on the CPU"


NETWORK_LIMITS = (segments_are_few, roi_are_few, begins_on_the_npu)
SEGMENT_LIMITS = (segment_tensors_are_few, segment_roi_are_few)


def _segment_violations(segments: Sequence[NnieSegment], context: Context) -> list[Violation]:
    found = [
        violation(limit, beyond, "the network", "", context.limits)
        for limit in NETWORK_LIMITS
        if (beyond := limit(segments, context)) is not None
    ]
    found += [
        violation(rule, beyond, f"segment {segment.index}", "NNIE", context.limits)
        for segment in segments
        if segment.placement == "npu"
        for rule in SEGMENT_LIMITS
        if (beyond := rule(segment, context)) is not None
    ]
    return found
