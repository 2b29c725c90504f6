"""Where accuracy is lost: the network with any set of layers in 16 bits, built and run by the exact simulator.

Of a layer: *cumulative* is the SQNR of its output, with the errors of all layers before it; *isolated* is the SQNR
of the network's outputs when this layer alone is in 8 bits; *alone in 16 bits* the reverse, which is what a search
can gain. A tensor between two layers has 16 bits as soon as one of them has, so that isolated measures a layer's
weights, and its output where no 16-bit layer reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.distance import Distance, DistanceSum
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.layer_error import LayerError
from nnkit.mixed_precision.search import Candidate, LayerSet, Trial
from nnkit.program import OpBase, Program, macs
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize.fixed_point import quantize
from nnkit.quantize.float_program import FloatProgram
from nnkit.quantize.scheme import FixedPointScheme
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.verify.float_vs_program import compare_with_float
from nnkit.verify.tasks import TaskReading

OutputPair: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
Judge: TypeAlias = Callable[[str, Distance, Sequence[OutputPair]], str]


@dataclass(frozen=True)
class LayerCost:
    """What a layer that may run in 16 bits is and takes. value: the name of its output."""

    name: str
    value: str
    macs: int
    weight_values: int


def layer_cost(name: str, value: str, op: OpBase, program: Program) -> LayerCost:
    """The cost of the layer that `op` computes; ops with weights have them as `weight`, in every arithmetic."""
    weight = getattr(op, "weight", None)
    return LayerCost(name, value, macs(op, program), 0 if weight is None else int(weight.size))


def arithmetic_layers(layers: FloatProgram, program: Program) -> tuple[LayerCost, ...]:
    """The layers that may run in 16 bits: those with arithmetic that no tag has put there.

    program: of `layers`, with an op of the name of every one.
    """
    ops = {op.name: op for op in program.ops}
    return tuple(
        layer_cost(layer.name, layer.output, ops[layer.name], program)
        for layer in layers.ops
        if layer.computes and not layer.tags.hp
    )


class Diagnosis:
    """Measures a restructured model with chosen layers in 16 bits against the network as imported.

    Layers that only move values (reshape, concat, max pool, ...) have no arithmetic and are no candidates: their
    format is their neighbours'. Nor are those that the user's tags put into 16 bits.

    trials_are_builds: whether `program` gives what a build with these layers would have. A target whose quantiser
        takes long may leave steps out of `program`; what a search chooses is then confirmed on `build_program`.
    """

    trials_are_builds: bool = True

    def __init__(
        self,
        original: Model,
        restructured: Model,
        lowered: FloatProgram,
        stats: CalibrationStats,
        scheme: FixedPointScheme,
        finish: Callable[[Program], Program] = lambda program: program,
    ) -> None:
        """lowered: of `restructured`. finish: what a build does with a program, such as to correct its biases."""
        self._finish = finish
        self._last: tuple[LayerSet, Program] | None = None
        self._original = original
        self._model = restructured
        self._lowered = lowered
        self._stats = stats
        self._scheme = scheme
        self.layers = arithmetic_layers(lowered, self.program(frozenset()))

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The layers for `search`: a weight takes one byte more in 16 bits."""
        return tuple(Candidate(layer.name, layer.weight_values) for layer in self.layers)

    def values(self, layers: LayerSet) -> tuple[str, ...]:
        """Output names of layers, in the network's order."""
        return tuple(layer.value for layer in self.layers if layer.name in layers)

    def program(self, layers: LayerSet) -> Program:
        """The Program with these layers in 16 bits."""
        if self._last is None or self._last[0] != layers:
            tagged = self._lowered.with_sixteen_bits(self.values(layers) if layers else ())
            self._last = layers, self._finish(quantize(tagged, self._stats, self._scheme))
        return self._last[1]

    def build_program(self, layers: LayerSet) -> Program:
        """The Program with these layers in 16 bits, as a build has it."""
        return self.program(layers)

    def reference(self, samples: Sequence[Sample]) -> list[Mapping[str, NDArray[Any]]]:
        """The float network's outputs for every sample."""
        session = FloatSession(self._original, fetch=[spec.name for spec in self._original.outputs])
        return [session.run(sample.inputs) for sample in samples]

    def distance(
        self, layers: LayerSet, samples: Sequence[Sample], reference: Sequence[Mapping[str, NDArray[Any]]]
    ) -> Distance:
        """How far the outputs are from the float network's, over all samples."""
        return self.outputs(layers, samples, reference, None)[0]

    def outputs(
        self,
        layers: LayerSet,
        samples: Sequence[Sample],
        reference: Sequence[Mapping[str, NDArray[Any]]],
        read: TaskReading | None,
        *,
        build: bool = False,
    ) -> tuple[Distance, list[OutputPair]]:
        """As `distance`; and what `read` makes of every sample's outputs in float and in the Program, real units.

        build: of `build_program` instead of `program`.
        """
        program = self.build_program(layers) if build else self.program(layers)
        total = DistanceSum()
        pairs: list[OutputPair] = []
        for real, expected in zip(self.real_outputs(program, layers, samples), reference, strict=True):
            for name in program.outputs:
                total.add(real[name], expected[name])
            if read is not None:
                pairs.append((read(expected), read(real)))
        return total.result(), pairs

    def real_outputs(
        self, program: Program, layers: LayerSet, samples: Sequence[Sample]
    ) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The outputs of `program`, which is that of `layers`, for one sample after the other, in real units."""
        for sample in samples:
            stored = self.run(program, layers, sample)
            yield {name: program.tensors[name].format.dequantize(stored[name]) for name in program.outputs}

    def run(self, program: Program, layers: LayerSet, sample: Sample) -> Mapping[str, NDArray[Any]]:
        """Stored values of at least the outputs of `program`, which is that of `layers`."""
        return simulate(program, quantized_inputs(program, sample))

    def by_layer(self, samples: Sequence[Sample], layers: LayerSet = frozenset()) -> dict[str, LayerError]:
        """By name of every candidate, with `layers` in 16 bits; what it adds by itself is not measured.

        Where a target computes a layer in another shape, its value is that of the op behind it that gives it the
        network's; NaN where the program has none.
        """
        program = self.program(layers)
        verdict = compare_with_float(self._original, self._model, program, samples)
        makers = {op.output: op.name for op in program.ops}
        errors = {}
        for layer in self.layers:
            told = layer.name if layer.name in verdict.layers else makers.get(layer.value, layer.name)
            distance = verdict.layers.get(told)
            cumulative_db = math.nan if distance is None else distance.sqnr_db
            clip_rate = verdict.clip_rate.get(told, 0.0)
            errors[layer.name] = LayerError(layer.name, layer.value, None, cumulative_db, clip_rate)
        return errors


def measurer(
    diagnosis: Diagnosis,
    sample_sets: Mapping[str, Sequence[Sample]],
    judge: Judge | None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    read: TaskReading | None = None,
) -> Callable[[LayerSet], Trial]:
    """For `search`: a set passes where the gates hold on every one of the sample sets.

    sample_sets: by what messages call them. A trial's numbers are the first set's; the others run only where it
        passes, so that they can veto a choice and do not guide it.
    judge: given the set's name, the distance and the pairs of what `read` reads (empty without it): the gate
        that fails, in words; empty where none does. None: everything passes, and only the first set runs.
    """
    first, *others = sample_sets
    references = {name: diagnosis.reference(samples) for name, samples in sample_sets.items()}

    def failure(layers: LayerSet, distance: Distance, pairs: Sequence[OutputPair]) -> str:
        if judge is None:
            return ""
        reason, where = judge(first, distance, pairs), first
        for name in others:
            if not reason:
                other = diagnosis.outputs(layers, sample_sets[name], references[name], read)
                reason, where = judge(name, *other), name
        return f"{reason} on the {where} images" if reason else ""

    def measure(layers: LayerSet) -> Trial:
        distance, pairs = diagnosis.outputs(layers, sample_sets[first], references[first], read)
        trial = Trial(layers, distance.cosine, distance.sqnr_db, distance.max_abs, failure(layers, distance, pairs))
        on_trial(trial)
        return trial

    return measure


def confirmer(
    diagnosis: Diagnosis, sample_sets: Mapping[str, Sequence[Sample]], judge: Judge, read: TaskReading | None = None
) -> Callable[[LayerSet], str]:
    """For `search_confirmed`: the gate that the build of a set fails, in words, on the last of the sample sets.

    Nothing is run where trials are builds: they were judged as they are.
    """
    name = list(sample_sets)[-1]

    def confirm(layers: LayerSet) -> str:
        if diagnosis.trials_are_builds:
            return ""
        samples = sample_sets[name]
        outcome = diagnosis.outputs(layers, samples, diagnosis.reference(samples), read, build=True)
        reason = judge(name, *outcome)
        return f"{reason} on the {name} images, as a build has it" if reason else ""

    return confirm
