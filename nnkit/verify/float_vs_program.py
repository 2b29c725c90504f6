"""Float network against Program: distances of the outputs and, layer by layer, of every stored value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import ValueRange
from nnkit.clip_rate import ClipSum, can_clip
from nnkit.distance import NOT_MEASURED, Distance, DistanceSum
from nnkit.errors import ModelError
from nnkit.executors import THIS_HOST, ExecutorChoice, open_executor
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import OpBase, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import Watch, simulate
from nnkit.verify.close_look import CLOSE_SAMPLES, CloseLook, ValueCounts
from nnkit.verify.constant_outputs import Constancy, Side, written_constants
from nnkit.verify.overflow import refuse_overflow
from nnkit.verify.tasks.score import TaskReading
from nnkit.verify.unseen import Unseen, UnseenSum
from nnkit.verify.worst import InputError, input_error, worst_of

KEPT_OUTPUTS = 32


@dataclass(frozen=True, eq=False)
class FloatVerdict:
    """outputs: over all outputs together. layers: by op name, of ops whose output the float network has.

    watch: saturations and accumulators seen.
    simulated: the Program's outputs (stored values) for the first `KEPT_OUTPUTS` samples, so that nobody need
        simulate them again.
    task_values: what the task reads of every sample, in the float network and in the Program, real units.
    unseen: by op name, of ops whose float output left what calibration saw.
    clip_rate: by op name, the share of the float output's values that the tensor cannot hold.
    isolated, histograms: by op name, of the first inputs (`nnkit.verify.close_look`).
    worst: the inputs whose outputs differ most, the worst first.
    constant: the outputs that no sample moves, and in which network. varying: as `outputs`, of the others.
    """

    outputs: Distance
    by_output: Mapping[str, Distance]
    layers: Mapping[str, Distance]
    watch: Watch
    samples: int
    simulated: tuple[Mapping[str, NDArray[Any]], ...] = ()
    task_values: tuple[tuple[NDArray[Any], NDArray[Any]], ...] = ()
    unseen: Mapping[str, Unseen] = field(default_factory=dict)
    clip_rate: Mapping[str, float] = field(default_factory=dict)
    isolated: Mapping[str, Distance] = field(default_factory=dict)
    histograms: Mapping[str, ValueCounts] = field(default_factory=dict)
    worst: tuple[InputError, ...] = ()
    constant: Mapping[str, Side] = field(default_factory=dict)
    varying: Distance = NOT_MEASURED

    def without_constant_outputs(self, program: Program) -> FloatVerdict:
        """The same without the distances of outputs that are constant, which prove nothing."""
        if not self.constant:
            return self
        makers = {op.name for op in program.ops if op.output in self.constant}
        alone = len(self.constant) == len(self.by_output)
        return replace(
            self,
            outputs=self.varying,
            by_output={name: NOT_MEASURED if name in self.constant else d for name, d in self.by_output.items()},
            layers={name: NOT_MEASURED if name in makers else d for name, d in self.layers.items()},
            isolated={name: NOT_MEASURED if name in makers else d for name, d in self.isolated.items()},
            worst=tuple(replace(each, distance=NOT_MEASURED) for each in self.worst) if alone else self.worst,
        )


PART_SAMPLES = 16
"""Samples are compared in parts of so many, whoever does it: sums of floats depend on what is summed first."""


@dataclass(frozen=True, eq=False)
class CompareJob:
    """What all parts share.

    read: what the verdict keeps of every sample's outputs; None: nothing.
    ranges: what calibration saw, by value name.
    """

    original: Model
    restructured: Model
    program: Program
    samples: Sequence[Sample]
    read: TaskReading | None = None
    ranges: Mapping[str, ValueRange] = field(default_factory=dict)


@dataclass(eq=False)
class PartSums:
    """What was compared of some samples; parts are merged in the samples' order."""

    total: DistanceSum
    by_output: dict[str, DistanceSum]
    by_layer: dict[str, DistanceSum]
    watch: Watch
    simulated: list[Mapping[str, NDArray[Any]]]
    task_values: list[tuple[NDArray[Any], NDArray[Any]]]
    unseen: dict[str, UnseenSum]
    clipped: dict[str, ClipSum]
    close: CloseLook
    worst: list[InputError]
    constancy: dict[str, Constancy]

    def merge(self, other: PartSums) -> None:
        """Take the part that comes after all that were taken before."""
        self.total.merge(other.total)
        for mine, theirs in ((self.by_output, other.by_output), (self.by_layer, other.by_layer)):
            for name, sums in theirs.items():
                mine[name].merge(sums)
        for name, output in other.constancy.items():
            self.constancy[name].merge(output)
        for name, beyond in other.unseen.items():
            self.unseen[name].merge(beyond)
        for name, cut in other.clipped.items():
            self.clipped[name].merge(cut)
        self.watch.merge(other.watch)
        self.simulated += other.simulated[: max(0, KEPT_OUTPUTS - len(self.simulated))]
        self.task_values += other.task_values
        self.close.merge(other.close)
        self.worst = worst_of([*self.worst, *other.worst])


def compare_with_float(
    original: Model,
    restructured: Model,
    program: Program,
    samples: Sequence[Sample],
    *,
    read: TaskReading | None = None,
    ranges: Mapping[str, ValueRange] | None = None,
    choice: ExecutorChoice = THIS_HOST,
    progress: Callable[[int], object] = lambda samples: None,
) -> FloatVerdict:
    """Simulate every sample and compare.

    Outputs are compared with the network as imported, inner layers with the restructured one (whose values carry
    the same names). ONNX Runtime computes both. Where restructuring changed the inputs or outputs themselves, the
    restructured network is the reference of both.

    ranges: what calibration saw, by value name; without it the verdict's `unseen` is empty.
    choice: where it runs; the verdict is the same to the last bit. progress: told how many samples more are done.

    Raises ModelError where the float network gives NaN or infinity, or the Program in a layer in which the float
    network does not: nothing can be compared with that.
    """
    job = CompareJob(original, restructured, program, samples, read, dict(ranges or {}))
    parts = [(first, min(first + PART_SAMPLES, len(samples))) for first in range(0, len(samples), PART_SAMPLES)]
    sums = _no_sums(job)
    with open_executor(choice, len(parts)) as executor:
        waiting: dict[int, PartSums] = {}
        merged = 0
        for index, part_sums in executor.map(compare_part, job, parts):
            progress(parts[index][1] - parts[index][0])
            waiting[index] = part_sums
            while merged in waiting:
                sums.merge(waiting.pop(merged))
                merged += 1
    _sessions.cache_clear()
    written = written_constants(restructured, program.outputs)
    sides = {name: output.side for name, output in sums.constancy.items() if name not in written}
    constant = {name: side for name, side in sides.items() if side is not None}
    return FloatVerdict(
        outputs=sums.total.result(),
        by_output={name: part.result() for name, part in sums.by_output.items()},
        layers={name: part.result() for name, part in sums.by_layer.items()},
        watch=sums.watch,
        samples=len(samples),
        simulated=tuple(sums.simulated),
        task_values=tuple(sums.task_values),
        unseen={name: beyond for name, part in sums.unseen.items() if (beyond := part.result()) is not None},
        clip_rate={name: part.rate for name, part in sums.clipped.items()},
        isolated=sums.close.isolated(),
        histograms=sums.close.histograms(),
        worst=tuple(sums.worst),
        constant=constant,
        varying=_varying(sums, constant),
    )


def _varying(sums: PartSums, constant: Mapping[str, Side]) -> Distance:
    """The distance over the outputs that are not constant."""
    if not constant:
        return sums.total.result()
    varying = DistanceSum()
    for name, output in sums.by_output.items():
        if name not in constant:
            varying.merge(output)
    return varying.result() if len(constant) < len(sums.by_output) else NOT_MEASURED


def compare_part(job: CompareJob, part: tuple[int, int]) -> PartSums:
    """Samples first..last - 1, wherever that runs."""
    sums, program = _no_sums(job), job.program
    reference, inner = _sessions(job)
    for index, sample in enumerate(job.samples[part[0] : part[1]], part[0]):
        stored = simulate(program, quantized_inputs(program, sample), watch=sums.watch)
        for name in program.outputs:
            stored[name].setflags(write=False)
        if len(sums.simulated) < KEPT_OUTPUTS:
            sums.simulated.append({name: stored[name] for name in program.outputs})
        expected = reference.run(sample.inputs)
        outputs: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        for name in program.outputs:
            if not np.isfinite(expected[name]).all():
                raise ModelError(
                    f"the float network gives NaN or infinity in output {name!r}",
                    where=sample.source,
                    remedy="check this input, and the model's weights",
                )
            real = program.tensors[name].format.dequantize(stored[name])
            sums.total.add(real, expected[name])
            sums.by_output[name].add(real, expected[name])
            sums.constancy[name].add(expected[name], stored[name])
            outputs[name] = (expected[name], real)
        if job.read is not None:
            floats_and_ours = ({name: pair[side] for name, pair in outputs.items()} for side in (0, 1))
            before, after = (job.read(values) for values in floats_and_ours)
            sums.task_values.append((before, after.astype(np.float32)))
        sums.worst = worst_of([*sums.worst, input_error(index, sample.source, sample.image, outputs)])
        floats = inner.run(sample.inputs)
        refuse_overflow(program, stored, floats, sample.source)
        if index < CLOSE_SAMPLES:
            sums.close.add({**sample.inputs, **floats})
        for op in _shared(job):
            got = program.tensors[op.output].format.dequantize(stored[op.output])
            sums.by_layer[op.name].add(got, floats[op.output])
            if op.name in sums.unseen:
                sums.unseen[op.name].add(floats[op.output], sample.source)
            if op.name in sums.clipped:
                sums.clipped[op.name].add(floats[op.output])
    return sums


@lru_cache(maxsize=1)
def _sessions(job: CompareJob) -> tuple[FloatSession, FloatSession]:
    """Sessions of the reference for the outputs and of that for the layers; a worker opens them once."""
    original, restructured = job.original, job.restructured
    comparable = original.inputs == restructured.inputs and original.outputs == restructured.outputs
    reference = FloatSession(original if comparable else restructured, fetch=list(job.program.outputs))
    return reference, FloatSession(restructured, fetch=[op.output for op in _shared(job)])


@lru_cache(maxsize=1)
def _shared(job: CompareJob) -> tuple[OpBase, ...]:
    """The ops whose output the float network has too: a target may have ops of its own between them."""
    computed = {name for node in job.restructured.proto().graph.node for name in node.output}
    return tuple(op for op in job.program.ops if op.output in computed)


def _no_sums(job: CompareJob) -> PartSums:
    tensors = job.program.tensors
    return PartSums(
        DistanceSum(),
        {name: DistanceSum() for name in job.program.outputs},
        {op.name: DistanceSum() for op in _shared(job)},
        Watch(),
        [],
        [],
        {op.name: UnseenSum(job.ranges[op.output]) for op in _shared(job) if op.output in job.ranges},
        {op.name: ClipSum(tensors[op.output]) for op in _shared(job) if can_clip(tensors[op.output])},
        CloseLook(job.program, _shared(job), job.ranges),
        [],
        {name: Constancy() for name in job.program.outputs},
    )
