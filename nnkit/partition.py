"""Partition: maximal runs of layers with one placement, in execution order."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph import Model
from nnkit.program.ops import Placement
from nnkit.quantize.layers import FloatLayer
from nnkit.quantize.lowering import lower
from nnkit.rewrite import RewriteLog


@dataclass(frozen=True)
class Segment:
    """Consecutive layers that run on one side."""

    placement: Placement
    layers: tuple[str, ...]


def partition(model: Model, log: RewriteLog | None = None) -> tuple[Segment, ...]:
    """Split the restructured model's layers at every change of placement (`_cpu` tags).

    log: of the restructuring, for the reasons in messages.
    Raises ModelError for layers that no side can run (all of them in one message).
    """
    segments: list[Segment] = []
    for layer in lower(model, log).layers:
        side = _placement(layer)
        if segments and segments[-1].placement == side:
            segments[-1] = Segment(side, (*segments[-1].layers, layer.name))
        else:
            segments.append(Segment(side, (layer.name,)))
    return tuple(segments)


def _placement(layer: FloatLayer) -> Placement:
    return "cpu" if layer.tags.cpu else "npu"
