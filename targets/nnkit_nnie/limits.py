"""What a limit is: a function whose docstring is the message, the remedy and the line in the docs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from nnkit.errors import ModelError
from nnkit_nnie.chips import CHIPS, ChipName
from nnkit_nnie.graph import Graph
from nnkit_nnie.layers import Layer

Limits: TypeAlias = Mapping[str, int | str]

LIMITS: Limits = MappingProxyType(
    {
        "max_side": 4096,
        "max_parameter": 255,
        "max_group": 2048,
        "powers": "-3, -2, -1, -1/2, 1/2, 1, 2, 3",
        "max_concat_inputs": 32,
        "normalize_eps": "1e-10",
        "max_name_bytes": 32,
        "min_image_side": 8,
        "max_image_side": 4096,
        "upsample_factor": 2,
        "max_segments": 8,
        "max_segment_tensors": 16,
        "max_roi_per_segment": 2,
        "max_roi": 4,
    }
)


def limits_of(chip: ChipName) -> Limits:
    """The numbers for one chip: the same for both generations, beside which mapper compiles for it."""
    found = CHIPS[chip]
    return MappingProxyType({**LIMITS, "mapper": found.mapper, "arch_version": found.arch_version})


@dataclass(frozen=True)
class Context:
    """What a limit may look at beside the layer. producers: the layer that computes each value."""

    graph: Graph
    producers: Mapping[str, Layer]
    consumers: Mapping[str, tuple[Layer, ...]]
    compile_mode: int
    limits: Limits


def context_of(graph: Graph, layers: Sequence[Layer], compile_mode: int, chip: ChipName) -> Context:
    """The context of a network's layers."""
    producers = {name: layer for layer in layers for name in (*layer.inner, *layer.outputs)}
    consumers: dict[str, tuple[Layer, ...]] = {}
    for layer in layers:
        for name in layer.inputs:
            consumers[name] = (*consumers.get(name, ()), layer)
    return Context(graph, producers, consumers, compile_mode, limits_of(chip))


LayerLimit: TypeAlias = Callable[[Layer, Context], str | None]
"""What of the layer is beyond the limit, in words that follow "found"; None where it is within."""


@dataclass(frozen=True)
class Violation:
    """A layer outside a limit: the limit in words, what was found instead, and what to do.

    movable: the CPU may run the layer instead.
    """

    layer: str
    kind: str
    reason: str
    remedy: str
    found: str = ""
    movable: bool = False


def limit_text(limit: Callable[..., object], limits: Limits) -> str:
    """The limit in words, with the numbers filled in."""
    return _parts(limit, limits)[0]


def limit_remedy(limit: Callable[..., object], limits: Limits) -> str:
    """What the docstring says after `fix:`."""
    return _parts(limit, limits)[1]


def _parts(limit: Callable[..., object], limits: Limits) -> tuple[str, str]:
    template = " ".join((inspect.getdoc(limit) or "").split())
    text = template.format(**{k: f"{v:,}" if isinstance(v, int) else v for k, v in limits.items()})
    reason, _, remedy = text.partition(" fix: ")
    return reason, remedy


def violation(
    limit: Callable[..., object], found: str, layer: str, kind: str, limits: Limits, *, movable: bool = False
) -> Violation:
    """The violation of a limit by a layer, or by what else is limited; found: as the limit says it."""
    reason, remedy = _parts(limit, limits)
    return Violation(layer, kind, reason, remedy, found, movable)


def violations_error(found: Sequence[Violation]) -> ModelError:
    """All violations in one error, each with its layers, what was found, and its remedy.

    What layers have in common is said once.
    """
    together: dict[tuple[str, str], list[Violation]] = {}
    for each in found:
        together.setdefault((each.reason, each.remedy), []).append(each)
    lines = ""
    for (reason, remedy), those in together.items():
        common = {each.found for each in those}
        found_here = f"; found {those[0].found}" if len(common) == 1 and those[0].found else ""
        names = [_place(each, with_found=len(common) > 1) for each in those]
        places = f"{names[0]}:" if len(names) == 1 else f"{_wrapped(names)}:\n   "
        lines += f"\n  {places} {reason}{found_here}" + (f"\n    fix: {remedy}" if remedy else "")
    count = len(found)
    title = f"{count} limit{'s' if count > 1 else ''} of the NNIE {'are' if count > 1 else 'is'} exceeded"
    if not any(each.movable for each in found):
        title = f"{count} rule{'s' if count > 1 else ''} of the NNIE {'are' if count > 1 else 'is'} broken"
    return ModelError(f"{title}:{lines}", remedy=_remedy(found))


def _place(each: Violation, *, with_found: bool) -> str:
    """The layer with its type, and what was found where layers differ in that."""
    notes = [note for note in (each.kind, f"found {each.found}" if with_found and each.found else "") if note]
    return f"{each.layer} ({'; '.join(notes)})" if notes else each.layer


def _remedy(found: Sequence[Violation]) -> str:
    movable = sum(1 for each in found if each.movable)
    if not movable:
        return "change the network or its tags as said (docs/nnie_limits.md has all limits and rules)"
    which = "these layers" if movable == len(found) else "what exceeds a limit of a layer"
    return (
        f"change the network as said, or let the CPU run {which}: tag them `cpu`, name them in the option `custom`, "
        "or set `outside_limits: custom` (docs/nnie_limits.md has all limits)"
    )


def _wrapped(names: Sequence[str], width: int = 110) -> str:
    """Names with commas, in lines; a name is not broken."""
    lines = [""]
    for index, name in enumerate(names):
        text = name if index == len(names) - 1 else f"{name}, "
        if lines[-1] and len(lines[-1]) + len(text) > width:
            lines.append("")
        lines[-1] += text
    return "\n  ".join(line.rstrip() for line in lines)
