"""Slices: what every tensor of a group holds in each pass of the loop, from the group's outputs backwards.

The group's outputs are cut into nearly equal parts, batch first, then rows. Every op, last to first, says which
part of its inputs it needs (`backward.py`); a tensor that several ops read holds the hull of what they need.
Neighbouring parts of inputs overlap by the halo, and what overlaps is loaded and computed again. A cut is refused
where this exceeds half of the tensor: with two slices, where the repeated part is more than h / 2; with any number
of slices, where 2 * sum(lengths) > 3 * h. (h = 100: [0, 80) and [20, 100) repeat 60 rows and fail; [0, 60) and
[20, 100) repeat 40.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from nnkit_tpu.layer_group.backward import Span, backward_h, backward_n
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp


class SliceCount(NamedTuple):
    """Parts along the batch and along the rows; (1, 1) is a group without slices."""

    n: int
    h: int

    @property
    def total(self) -> int:
        """Passes of the loop."""
        return self.n * self.h


class Part(NamedTuple):
    """Images and rows of a tensor in one slice."""

    images: Span
    rows: Span


@dataclass(frozen=True, eq=False)
class SlicePlan:
    """What each pass of the loop holds.

    parts: by tensor, one `Part` for every pass, batch part outermost. shares: of the group's outputs, the part that a
    pass stores; the shares of all passes are disjoint and make up the tensor.
    """

    count: SliceCount
    parts: Mapping[str, tuple[Part, ...]]
    shares: Mapping[str, tuple[Part, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))


@dataclass(frozen=True)
class Refusal:
    """Why something cannot be done. rule: its short name; where: the op or tensor; reason: a sentence."""

    rule: str
    where: str
    reason: str


def even_spans(length: int, parts: int) -> tuple[Span, ...]:
    """`length` in `parts` spans that differ by one at most, the longer ones first."""
    base, extra = divmod(length, parts)
    spans, start = [], 0
    for index in range(parts):
        stop = start + base + (index < extra)
        spans.append(Span(start, stop))
        start = stop
    return tuple(spans)


def repeats_too_much(spans: Sequence[Span], length: int) -> bool:
    """Whether the overlap rule refuses these spans of a tensor of `length` rows: 2 * sum(lengths) > 3 * length."""
    return 2 * sum(span.length for span in spans) > 3 * length


def slice_group(graph: GroupGraph, ops: Sequence[GroupOp], count: SliceCount) -> SlicePlan | Refusal:
    """Cut the group of `ops` (in execution order) into `count` slices, or say why that is impossible."""
    outputs = graph.group_outputs(ops)
    images: dict[str, list[Span]] = {}
    rows: dict[str, list[Span]] = {}
    for name in outputs:
        batch, _, height, _ = graph.tensors[name].shape
        if batch < count.n or height < count.h:
            what = f"{batch} images" if batch < count.n else f"{height} rows"
            wanted = count.n if batch < count.n else count.h
            return Refusal("too few rows", name, f"{name} has {what}, which do not make {wanted} slices")
        images[name] = list(even_spans(batch, count.n))
        rows[name] = list(even_spans(height, count.h))
    stored = {name: (tuple(images[name]), tuple(rows[name])) for name in outputs}

    for op in reversed(ops):
        result = graph.tensors[op.output].shape
        for name in op.inputs:
            source = graph.tensors[name].shape
            for needed, spans, backward, axis in (
                (images, images[op.output], backward_n, "batch"),
                (rows, rows[op.output], backward_h, "rows"),
            ):
                for index, span in enumerate(spans):
                    wanted_span = backward(op, span, source, result)
                    if wanted_span is None:
                        return Refusal(
                            "not sliceable", op.name, f"{op.name} ({op.kind}) cannot be cut along its {axis}"
                        )
                    held = needed.setdefault(name, [])
                    if len(held) <= index:
                        held.append(wanted_span)
                    else:
                        held[index] = held[index].hull(wanted_span)
    for name, spans in rows.items():
        height = graph.tensors[name].shape[2]
        if height > 1 and repeats_too_much(spans, height):
            total = sum(span.length for span in spans)
            return Refusal(
                "overlap", name, f"{count.h} slices of {name} hold {total} rows of {height}: over 3/2 of it"
            )
    return SlicePlan(
        count,
        {name: _product(images[name], rows[name]) for name in rows},
        {name: _product(*stored[name]) for name in outputs},
    )


def slice_counts(graph: GroupGraph, ops: Sequence[GroupOp]) -> Iterator[SliceCount]:
    """Every count that the outputs' shapes allow, in the order of trying: batch down to single images, then rows."""
    shapes = [graph.tensors[name].shape for name in graph.group_outputs(ops)]
    batch = min(shape[0] for shape in shapes)
    height = min(shape[2] for shape in shapes)
    largest = 0
    for parts in range(1, batch + 1):
        if -(-batch // parts) != largest:  # more parts that are no smaller gain nothing
            largest = -(-batch // parts)
            yield SliceCount(parts, 1)
    for parts in range(2, height + 1):
        yield SliceCount(batch, parts)


def _product(images: Sequence[Span], rows: Sequence[Span]) -> tuple[Part, ...]:
    return tuple(Part(image, row) for image in images for row in rows)
