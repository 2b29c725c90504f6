"""Ranges moved outwards, value by value, from where a method put them towards the extremes that were seen.

A method like `kl` looks at one value's numbers alone. What clipping them costs depends on the layers that read the
value: so each range is widened in steps from the method's to the extremes, the reading layers are computed in float
of what the target's format keeps of the value, everything else exact, and the width is taken at which their outputs
are nearest to the float network's on calibration inputs. A value that several layers read is judged by all of them.

That is blind to what errors of several layers do together, so the whole is judged by the program's outputs on
held-out inputs, a quarter of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.methods import Method, by_method
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.subgraph import subgraph
from nnkit.graph.view import GraphView, Node
from nnkit.program import Program, macs
from nnkit.program.formats import Affine, Fixed
from nnkit.program.op import OpBase
from nnkit.quantize.judge import Judge, accuracy_in_quarters, clearly_better, no_worse, quarters
from nnkit.quantize.observed import observed_on
from nnkit.samples import Sample

TUNE_RANGES = "tune_ranges"
"""Its name in a recipe's `calibration.corrections`."""

FEWEST = 4
"""Samples; below, nothing is left to judge on."""

LABEL = "range tuning"
"""Its name in notes."""

STEPS = 8
"""Widths that are tried beside the method's own; the last holds the extremes."""

_CLEARLY = 2.0  # standard errors of the gain, where nobody asked
_SAMPLES = 8  # that layers are computed on
_MOST_NODES = 32  # of the float network in one layer
_MOST_MACS = 100e9  # of all layers that are computed in one tuning; ONNX Runtime takes some seconds for it
_MOST_WEIGHTS = 2e9  # that are quantised in all
_MOST_NUMBERS = 1 << 27  # float values that are kept at a time


Formats: TypeAlias = Mapping[tuple[int, int], Affine | Fixed | None]
"""By an op's place in the program and a value's among its inputs."""


@dataclass(frozen=True)
class Quantiser:
    """How a target makes programs of ranges.

    fit: the ranges as the target's formats have them. quantise: the program of such ranges, without corrections.
    """

    fit: Callable[[CalibrationStats], CalibrationStats]
    quantise: Callable[[CalibrationStats], Program]


@dataclass(frozen=True)
class RangeTuning:
    """The ranges that were moved, by value, none where the others stay; and the note that says why."""

    ranges: Mapping[str, ValueRange]
    note: str

    def applied(self, statistics: CalibrationStats) -> CalibrationStats:
        """The statistics with these ranges, which no target fits to its formats again."""
        if not self.ranges:
            return statistics
        return replace(
            statistics, ranges={**statistics.ranges, **self.ranges}, tuned=statistics.tuned | self.ranges.keys()
        )


def choose_tuning(
    model: Model,
    statistics: CalibrationStats,
    samples: Sequence[Sample],
    quantiser: Quantiser,
    method: Method,
    *,
    percentile: float,
    asked: bool,
    on_round: Callable[[int, int], None] = lambda number, rounds: None,
) -> RangeTuning:
    """The ranges of `statistics` tuned on the samples, or none where that does not pay on held-out samples.

    statistics: of all calibration inputs, by the method. samples: at least `FEWEST`. asked: it is kept unless it
    harms; otherwise it has to gain 0.1 dB and two standard errors on the mean input. Of large networks fewer samples
    are used; where even that would take long, nothing is tuned. on_round: called as each round begins, with its
    number from 1 and how many there are.
    """
    fitted = quantiser.fit(statistics)
    program = quantiser.quantise(fitted)
    rounds = len(quarters(samples)) + 1
    weights, parts = sum(op.weight_bytes() for op in program.ops), Parts(model)
    if weights * rounds * (STEPS + 1) > _MOST_WEIGHTS:
        return RangeTuning({}, f"{LABEL} left out: the network is too large to try it in bounded time")

    def trials(index: int, measured: Sequence[Sample]) -> Iterator[Program]:
        on_round(index + 1, rounds)
        observed = replace(observed_on(model, measured, percentile), room=statistics.room)
        plain = quantiser.fit(by_method(observed, method, percentile=percentile))
        moved = RangeTuning(tuned_ranges(parts, plain, measured, quantiser.quantise), "").applied(plain)
        return (quantiser.quantise(each) for each in (plain, moved))  # one in memory at a time

    judge: Judge = no_worse if asked else partial(clearly_better, errors=_CLEARLY)
    kept, note = judge(LABEL, *accuracy_in_quarters(model, program, samples, trials))
    if not kept:
        return RangeTuning({}, note)
    on_round(rounds, rounds)
    ranges = tuned_ranges(parts, fitted, samples, quantiser.quantise)
    return RangeTuning(ranges, f"{note}; {len(ranges)} of {len(fitted.ranges)} ranges are wider")


class Parts:
    """A float network's layers as networks of their own, each opened once."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, GraphView.of(model)
        self._opened: dict[tuple[tuple[int, ...], tuple[str, ...], str], FloatSession] = {}

    def part(self, nodes: Sequence[Node], fed: tuple[str, ...], output: str) -> FloatSession:
        """The nodes between what is fed to them and their output."""
        key = tuple(node.index for node in nodes), fed, output
        if key not in self._opened:
            self._opened[key] = FloatSession(subgraph(self.graph, nodes, fed, [output]))
        return self._opened[key]


def tuned_ranges(
    parts: Parts, fitted: CalibrationStats, samples: Sequence[Sample], quantise: Callable[[CalibrationStats], Program]
) -> dict[str, ValueRange]:
    """By value, the ranges that are better wider than the method has them.

    parts: of the float network. fitted: ranges as the target's formats have them. samples: some of them are computed,
    spread evenly.
    """
    trials = [widened(fitted, step / STEPS) for step in range(STEPS + 1)]
    program = quantise(trials[0])
    layers = list(_layers(parts, program, fitted))
    if not layers:
        return {}
    formats = [_formats(layers, program), *(_formats(layers, quantise(each)) for each in trials[1:])]
    values = list(dict.fromkeys(name for layer in layers for name in (*layer.part_inputs, layer.op.output)))
    kept = _spread(samples, _affordable(program, layers))
    session = FloatSession(parts.model, values)
    floats = [session.run(sample.inputs) for sample in kept]
    errors: dict[str, NDArray[np.float64]] = {}
    for layer in layers:
        for name, each in layer.errors(formats, floats).items():
            errors[name] = errors.get(name, 0.0) + each
    best = {name: int(np.argmin(each)) for name, each in errors.items()}
    return {name: trials[step].ranges[name] for name, step in best.items() if step > 0}


def widened(statistics: CalibrationStats, share: float) -> CalibrationStats:
    """Every end of a range moved by this share of the way to what was seen beyond it."""

    def moved(each: ValueRange) -> ValueRange:
        low = each.low + share * min(each.observed_low - each.low, 0.0)
        return replace(each, low=low, high=each.high + share * max(each.observed_high - each.high, 0.0))

    ranges = {name: moved(each) for name, each in statistics.ranges.items()}
    return replace(statistics, ranges=ranges, tuned=frozenset(ranges))


@dataclass(frozen=True, eq=False)
class _Layer:
    """An op of the program as a part of the float network.

    index: of the op. part: the float network between the op's inputs and its output. part_inputs: what is fed to it.
    tuned: by the place among the op's inputs, the values whose ranges are tried here.
    """

    index: int
    op: OpBase
    part: FloatSession
    part_inputs: tuple[str, ...]
    tuned: Mapping[int, str]

    def errors(
        self, formats: Sequence[Formats], floats: Sequence[Mapping[str, NDArray[Any]]]
    ) -> dict[str, NDArray[np.float64]]:
        """By value and width: squared errors of the layer's output as shares of its squares, over all samples.

        formats: for every width.
        """
        session, output = self.part, self.op.output
        totals = {}
        for place, name in self.tuned.items():
            total = np.zeros(len(formats))
            for values in floats:
                feeds = {each: values[each] for each in self.part_inputs}
                expected = values[output].astype(np.float64)
                squares = max(float(np.square(expected).sum()), 1e-30)
                for step, each in enumerate(formats):
                    stored = _through(each[self.index, place], values[name])
                    computed = session.run({**feeds, name: stored})[output]
                    total[step] += float(np.square(computed - expected).sum()) / squares
            totals[name] = total
        return totals


def _layers(parts: Parts, program: Program, fitted: CalibrationStats) -> Iterator[_Layer]:
    """The ops that can be computed as a part of the float network, with an input whose range is to be found."""
    graph = parts.graph
    inputs = {spec.name for spec in parts.model.inputs}
    known = inputs | graph.producers.keys()
    for index, op in enumerate(program.ops):
        tuned = {
            place: name
            for place, name in enumerate(op.inputs)
            if name in known
            and name in fitted.ranges
            and _can_widen(fitted.ranges[name])
            and _format_of(program, op, place) is not None
        }
        if not tuned or op.output not in known:
            continue
        nodes, fed = _nodes_between(graph, {name for name in op.inputs if name in known}, op.output, inputs)
        if len(nodes) > _MOST_NODES or not set(tuned.values()) <= fed:
            continue
        read = tuple(sorted(fed))
        yield _Layer(index, op, parts.part(nodes, read, op.output), read, tuned)


def _nodes_between(graph: GraphView, sources: set[str], output: str, inputs: set[str]) -> tuple[list[Node], set[str]]:
    """The nodes that compute a value from the sources and, where those do not suffice, the network's inputs; and what
    of these they read."""
    nodes: dict[int, Node] = {}
    fed: set[str] = set()
    waiting = [output]
    while waiting and len(nodes) <= _MOST_NODES:
        name = waiting.pop()
        if name in sources or name in inputs:
            fed.add(name)
            continue
        node = graph.producers.get(name)
        if node is not None and node.index not in nodes:
            nodes[node.index] = node
            waiting.extend(each for each in node.inputs if each)
    return list(nodes.values()), fed


def _formats(layers: Sequence[_Layer], program: Program) -> Formats:
    return {
        (layer.index, place): _format_of(program, program.ops[layer.index], place)
        for layer in layers
        for place in layer.tuned
    }


def _can_widen(each: ValueRange) -> bool:
    return each.observed_low < each.low or each.observed_high > each.high


def _format_of(program: Program, op: OpBase, place: int) -> Affine | Fixed | None:
    """The integers that a value is kept in, or that the op makes of it; None where there are none."""
    stored = program.tensors[op.inputs[place]].format
    for each in (stored, op.read_formats(program.tensors)[place]):
        if isinstance(each, Affine | Fixed):
            return each
    return None


def _through(form: Affine | Fixed | None, values: NDArray[Any]) -> NDArray[np.float32]:
    """Real values as the format keeps them; as they are where there is none.

    The format is that of one image; something else may stand on the first axis, such as steps.
    """
    if form is None:
        return values.astype(np.float32)
    return np.stack([form.dequantize(form.quantize(each)) for each in values]).astype(np.float32)


def _affordable(program: Program, layers: Sequence[_Layer]) -> int:
    """As many samples as layers can be computed on in bounded time and memory; at least one."""
    products = sum(macs(layer.op, program) * len(layer.tuned) for layer in layers) * (STEPS + 1)
    numbers = sum(tensor.elements for tensor in program.tensors.values())
    most = min(_MOST_MACS // max(products, 1), _MOST_NUMBERS // max(numbers, 1), _SAMPLES)
    return max(1, int(most))


def _spread(samples: Sequence[Sample], count: int) -> list[Sample]:
    """At most so many, evenly over all."""
    if len(samples) <= count:
        return list(samples)
    return [samples[index * len(samples) // count] for index in range(count)]
