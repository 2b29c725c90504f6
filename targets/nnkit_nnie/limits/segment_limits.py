"""The NNIE's limits on segments and on the network as a whole, as constraints (`nnkit.constraints`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnkit.constraints import Violation, violation
from nnkit_nnie.front import front_of
from nnkit_nnie.layer_kinds import ROI_KINDS
from nnkit_nnie.limits.context import Context
from nnkit_nnie.limits.tag_rules import cpu_does_not_follow_data
from nnkit_nnie.network import NnieSegment


def segments_are_few(segments: Sequence[NnieSegment], context: Context) -> str | None:
    """a network has at most {max_segments} segments
    fix: name layers that lie between two segments of the CPU in the option `custom`: the CPU runs them too, and the
    segments join"""
    return f"{len(segments)}" if len(segments) > most_segments(segments, context) else None


def most_segments(segments: Sequence[NnieSegment], context: Context) -> int:
    """How many there may be: one more where the network begins on the CPU, which no compiled network has."""
    return context.limits.max_segments + (front_of(segments) is not None)


def segment_tensors_are_few(segment: NnieSegment, context: Context) -> str | None:
    """a segment has at most {max_segment_tensors} inputs and {max_segment_tensors} outputs
    fix: concatenate tensors, take `_report` tags off, or move layers to the other side"""
    inputs, outputs = len(segment.inputs), len(segment.outputs)
    most = context.limits.max_segment_tensors
    return f"{inputs} and {outputs}" if max(inputs, outputs) > most else None


def segment_roi_are_few(segment: NnieSegment, context: Context) -> str | None:
    """a segment has at most {max_roi_per_segment} ROI layers
    fix: split the network into several"""
    return _listed(_roi_layers([segment]), context.limits.max_roi_per_segment)


def roi_are_few(segments: Sequence[NnieSegment], context: Context) -> str | None:
    """a network has at most {max_roi} ROI layers
    fix: split the network into several"""
    return _listed(_roi_layers(segments), context.limits.max_roi)


def _roi_layers(segments: Sequence[NnieSegment]) -> list[str]:
    layers = (layer for segment in segments for layer in segment.layers)
    return [layer.name for layer in layers if layer.kind in ROI_KINDS and layer.placement == "npu"]


def _listed(layers: Sequence[str], most: int) -> str | None:
    return f"{len(layers)} ({', '.join(layers)})" if len(layers) > most else None


def some_layer_is_the_npus(segments: Sequence[NnieSegment], context: Context) -> str | None:
    """the NNIE runs at least one layer
    fix: name fewer layers for the CPU, or build the network for the target ansi_c, which is the CPU alone"""
    if not segments or any(segment.placement == "npu" for segment in segments):
        return None
    layers = segments[0].layers
    if any(cpu_does_not_follow_data(layer, context) for layer in layers):
        return None  # told already
    return f"all {len(layers)} on the CPU, {layers[0].name} ({layers[0].kind}) the first"


NETWORK_LIMITS = (segments_are_few, roi_are_few, some_layer_is_the_npus)
SEGMENT_LIMITS = (segment_tensors_are_few, segment_roi_are_few)


def segment_violations(segments: Sequence[NnieSegment], context: Context, *, fewer: str = "") -> list[Violation]:
    """Every limit that the segments exceed. fewer: a remedy that was tried where there are too many."""
    violations = [
        _remedied(
            violation(limit, beyond, "the network", "", context.limits), fewer if limit is segments_are_few else ""
        )
        for limit in NETWORK_LIMITS
        if (beyond := limit(segments, context)) is not None
    ]
    violations += [
        violation(rule, beyond, f"segment {segment.index}", "NNIE", context.limits)
        for segment in segments
        if segment.placement == "npu"
        for rule in SEGMENT_LIMITS
        if (beyond := rule(segment, context)) is not None
    ]
    return violations


def _remedied(each: Violation, remedy: str) -> Violation:
    return replace(each, remedy=remedy or each.remedy)
