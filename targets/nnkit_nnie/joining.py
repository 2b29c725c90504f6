"""Fewer segments: what the NNIE runs between two segments of the CPU, left to the CPU as well.

A network has at most so many segments. Where it has more, segments of the NNIE behind the first move to the CPU one
after another, those with the fewest multiply-accumulates first, until there are as many as may be. Where all that
move have at most `SMALL` of what the NNIE multiplies, that is done without being asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnkit.constraints import Violation
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView
from nnkit_nnie.estimates import works_of
from nnkit_nnie.layers import Layer
from nnkit_nnie.limits.context import Context
from nnkit_nnie.network import Network, NnieSegment

SMALL = 0.1
_BITS = 8


@dataclass(frozen=True, eq=False)
class Arranged:
    """Layers with their segments. violations: of limits and rules by single layers."""

    layers: tuple[Layer, ...]
    context: Context
    segments: tuple[NnieSegment, ...]
    violations: tuple[Violation, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """The same with fewer segments. moved: names of the layers that the CPU runs too. share: of the NNIE's products
    (0 to 1) that they have."""

    arranged: Arranged
    moved: tuple[str, ...]
    share: float

    def note(self, before: int) -> str:
        """For people; before: how many segments there were."""
        return (
            f"{len(self.moved)} layers between segments of the CPU run there too, so that there are "
            f"{len(self.arranged.segments)} segments, not {before}: they have {self.share:.1%} of the NNIE's "
            f"multiply-accumulates: {', '.join(self.moved)}"
        )

    def remedy(self) -> str:
        """What a recipe can say to have it."""
        return (
            f"write join_segments: any: the CPU then runs {len(self.moved)} layers more, with {self.share:.0%} of "
            "the NNIE's multiply-accumulates; or name layers that lie between two segments of the CPU in the option "
            "`custom`"
        )


def joined(start: Arranged, arrange: Callable[[tuple[Layer, ...]], Arranged], most: int) -> Joined | None:
    """With at most `most` segments; None where no choice of segments gives that.

    Segments stay that begin the network, that have a layer tagged `_hp` or a `_report` top, or whose move would break
    a rule that is not broken now.
    """
    now, moved, products = start, list[str](), 0
    total = sum(_products(start.context.graph, layer) for layer in start.layers)
    while len(now.segments) > most:
        better = _without_the_smallest(now, arrange)
        if better is None:
            return None
        segment, now = better
        moved += [layer.name for layer in segment.layers]
        products += sum(_products(now.context.graph, layer) for layer in segment.layers)
    return Joined(now, tuple(moved), products / max(1, total))


def _without_the_smallest(
    now: Arranged, arrange: Callable[[tuple[Layer, ...]], Arranged]
) -> tuple[NnieSegment, Arranged] | None:
    def size(segment: NnieSegment) -> int:
        return sum(_products(now.context.graph, layer) for layer in segment.layers)

    behind_the_first = [segment for segment in now.segments if segment.placement == "npu"][1:]
    movable = [
        segment for segment in behind_the_first if not any(layer.hp or layer.report for layer in segment.layers)
    ]
    for segment in sorted(movable, key=size):
        names = {layer.name for layer in segment.layers}
        trial = arrange(tuple(_moved(layer) if layer.name in names else layer for layer in now.layers))
        if len(trial.segments) < len(now.segments) and len(trial.violations) <= len(now.violations):
            return segment, trial
    return None


def _moved(layer: Layer) -> Layer:
    return replace(layer, custom=True, why_custom="it lies between segments of the CPU, and there are too many")


def _products(graph: GraphView, layer: Layer) -> int:
    """Products of a layer as the NNIE would multiply; 0 without weights, for computed ones, or on the CPU."""
    try:
        return sum(work.products for work in works_of(Network(graph, (layer,), ()), [layer], lambda _: _BITS))
    except Refused:
        return 0
