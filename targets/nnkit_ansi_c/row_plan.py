"""Which rows of which values a stripe of a network's first layers computes, and where such stripes may end.

The first layers are any graph of windows, of elementwise functions and of concatenations of channels: a chain,
residual sums, the arms of a Fire or Inception module. They may end at a value through which all goes that
leaves them.

For rows first .. last - 1 of that value, every other value has the rows from the first to the last that its readers
need. A reader that needs fewer of them than another one reads a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

Rows: TypeAlias = tuple[int, int]
"""[first, last) of a value's rows."""


@dataclass(frozen=True)
class RowWindow:
    """A window over rows. span: its rows, gaps included; pad: rows of padding above the first one."""

    span: int
    stride: int
    pad: int

    def rows_behind(self, first: int, last: int) -> Rows:
        """Rows that windows read for rows first .. last - 1 of their result; outside of the input is padding."""
        return first * self.stride - self.pad, (last - 1) * self.stride - self.pad + self.span


@dataclass(frozen=True)
class RowLayer:
    """A layer whose rows need some rows of its inputs alone. window: None: each row needs the same row.

    work: multiply-accumulates of a row of its result, or elements of it where it has none.
    """

    inputs: tuple[str, ...]
    output: str
    window: RowWindow | None
    work: int


@dataclass(frozen=True)
class StripedLayer:
    """A layer of one stripe. made: rows of its result; read: rows of each input, without padding."""

    layer: RowLayer
    made: Rows
    read: Rows
    pad_above: int
    pad_below: int


@dataclass(frozen=True)
class Head:
    """First layers that can be computed in stripes, each behind those that it reads.

    row_counts, row_bytes: of every value. leaving: values that others than these layers read, outputs among them.
    """

    source: str
    layers: tuple[RowLayer, ...]
    row_counts: Mapping[str, int]
    row_bytes: Mapping[str, int]
    leaving: frozenset[str]

    def upto(self, end: str) -> tuple[RowLayer, ...]:
        """The layers that this value needs, in order."""
        needed, layers = {end}, []
        for layer in reversed(self.layers):
            if layer.output in needed:
                needed.update(layer.inputs)
                layers.append(layer)
        return tuple(reversed(layers))

    @cached_property
    def ends(self) -> tuple[str, ...]:
        """Values at which stripes may end: the layers before it leave nothing else."""
        return tuple(layer.output for layer in self.layers if self._may_end(layer.output))

    def _may_end(self, end: str) -> bool:
        """Not before the only layer that reads it computes each value of one, of which nothing grows."""
        readers = [layer for layer in self.layers if end in layer.inputs]
        if end not in self.leaving and len(readers) == 1 and readers[0].inputs == (end,) and not readers[0].window:
            return False
        layers = self.upto(end)
        inside = {layer.output for layer in layers}
        others = [layer for layer in self.layers if layer.output not in inside]
        left = self.leaving | {name for layer in others for name in layer.inputs}
        return self.row_counts[end] > 1 and left & {self.source, *inside} <= {end}

    def stripe(self, end: str, rows: Rows) -> tuple[StripedLayer, ...]:
        """The layers for these rows of `end`."""
        layers = self.upto(end)
        needed = {end: rows}
        steps = []
        for layer in reversed(layers):
            made = needed[layer.output]
            low, high = made if layer.window is None else layer.window.rows_behind(*made)
            read = max(low, 0), min(high, self.row_counts[layer.inputs[0]])
            steps.append(StripedLayer(layer, made, read, read[0] - low, high - read[1]))
            for name in layer.inputs:
                known = needed.get(name, read)
                needed[name] = min(known[0], read[0]), max(known[1], read[1])
        return tuple(reversed(steps))

    def stripes(self, end: str, count: int) -> Iterator[tuple[StripedLayer, ...]]:
        """All stripes of `end`, from the first row on."""
        height = self.row_counts[end]
        for number in range(count):
            yield self.stripe(end, (height * number // count, height * (number + 1) // count))

    def work(self, end: str, count: int) -> int:
        """What the stripes compute, in multiply-accumulates and elements."""
        return sum(
            step.layer.work * (step.made[1] - step.made[0]) for stripe in self.stripes(end, count) for step in stripe
        )

    def live_bytes(self, end: str, count: int) -> int:
        """Most bytes of these layers' values that have to live at once: an estimate of what stripes take.

        Without the network's input, and with each elementwise result where its input was.
        """
        return self.row_bytes[end] * self.row_counts[end] + max(
            _live_bytes(stripe, self.row_bytes, {self.source, end}) for stripe in self.stripes(end, count)
        )


def _live_bytes(stripe: Sequence[StripedLayer], row_bytes: Mapping[str, int], elsewhere: set[str]) -> int:
    last = {name: index for index, step in enumerate(stripe) for name in step.layer.inputs}
    size = {
        step.layer.output: row_bytes[step.layer.output] * (step.made[1] - step.made[0])
        for step in stripe
        if step.layer.output not in elsewhere
    }
    live = most = 0
    for index, step in enumerate(stripe):
        ended = sum(size.get(name, 0) for name in {*step.layer.inputs} if last[name] == index)
        added = size.get(step.layer.output, 0)
        in_place = step.layer.window is None
        most = max(most, live + (max(added - ended, 0) if in_place else added))
        live += added - ended
    return most


def rest_bytes(layers: Sequence[tuple[Sequence[str], Sequence[str]]], size: Mapping[str, int]) -> int:
    """Most bytes of values that live at once in layers, each (inputs, outputs), that run whole.

    size: of the values that take memory; others count nothing.
    """
    last = {name: index for index, (inputs, outputs) in enumerate(layers) for name in (*inputs, *outputs)}
    live = most = 0
    alive: set[str] = set()
    for index, (inputs, outputs) in enumerate(layers):
        alive |= {*inputs, *outputs}
        live = sum(size.get(name, 0) for name in alive)
        most = max(most, live)
        alive = {name for name in alive if last[name] > index}
    return most
