"""What a limit may look at: the layer among its neighbours, the compile mode, and the numbers of the chip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nnkit.graph.view import GraphView
from nnkit_nnie.chips import CHIPS, ChipName, NnieLimits
from nnkit_nnie.layers import Layer
from nnkit_nnie.options import JoinSegments, NnieOptions


@dataclass(frozen=True)
class Division:
    """What decides how a network is divided; from the options."""

    chip: ChipName
    compile_mode: int = 0
    custom: tuple[str, ...] = ()
    outside_limits_custom: bool = False
    split_at_warp: bool = True
    join_segments: JoinSegments = "small"

    @staticmethod
    def of(options: NnieOptions) -> Division:
        """The options' choice."""
        return Division(
            options.chip,
            options.compile_mode,
            options.custom,
            options.outside_limits == "custom",
            options.split_at_warp,
            options.join_segments,
        )


@dataclass(frozen=True)
class Context:
    """producers: the layer that computes each value. consumers: the layers that read it."""

    graph: GraphView
    producers: Mapping[str, Layer]
    consumers: Mapping[str, tuple[Layer, ...]]
    compile_mode: int
    limits: NnieLimits


LayerLimit: TypeAlias = Callable[[Layer, Context], str | None]
"""What of the layer is beyond the limit, in words that follow "found"; None where it is within."""


def context_of(graph: GraphView, layers: Sequence[Layer], division: Division) -> Context:
    """The context of a network's layers."""
    producers = {name: layer for layer in layers for name in (*layer.inner, *layer.outputs)}
    consumers: dict[str, tuple[Layer, ...]] = {}
    for layer in layers:
        for name in layer.inputs:
            consumers[name] = (*consumers.get(name, ()), layer)
    return Context(graph, producers, consumers, division.compile_mode, CHIPS[division.chip].limits)
