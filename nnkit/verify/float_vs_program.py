"""Float network against Program: distances of the outputs and, layer by layer, of every stored value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.simulate import Watch, simulate
from nnkit.verify.metrics import Distance, DistanceSum
from nnkit.verify.samples import Sample, quantized_inputs

KEPT_OUTPUTS = 32


@dataclass(frozen=True, eq=False)
class FloatVerdict:
    """outputs: over all outputs together. layers: by op name, of ops whose output the float network has.

    watch: saturations and accumulators seen.
    simulated: the Program's outputs (stored values) for the first `KEPT_OUTPUTS` samples, so that nobody need
        simulate them again.
    """

    outputs: Distance
    by_output: Mapping[str, Distance]
    layers: Mapping[str, Distance]
    watch: Watch
    samples: int
    simulated: tuple[Mapping[str, NDArray[Any]], ...] = ()


def compare_with_float(
    original: Model,
    restructured: Model,
    program: Program,
    samples: Sequence[Sample],
    on_sample: Callable[[], None] = lambda: None,
    on_outputs: Callable[[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]], None] = lambda floats, program: (
        None
    ),
) -> FloatVerdict:
    """Simulate every sample and compare.

    Outputs are compared with the network as imported, inner layers with the restructured one (whose values carry
    the same names). ONNX Runtime computes both. Where restructuring changed the inputs or outputs themselves, the
    restructured network is the reference of both.

    on_outputs: gets every sample's outputs in real units, the float network's and the Program's.

    Raises ModelError where the float network gives NaN or infinity: nothing can be compared with that.
    """
    computed = {name for node in restructured.proto().graph.node for name in node.output}
    shared = [op for op in program.ops if op.output in computed]  # a target may have ops of its own between them
    values = [op.output for op in shared]
    comparable = original.inputs == restructured.inputs and original.outputs == restructured.outputs
    reference = FloatSession(original if comparable else restructured, fetch=list(program.outputs))
    inner = FloatSession(restructured, fetch=values)
    total, watch = DistanceSum(), Watch()
    by_output = {name: DistanceSum() for name in program.outputs}
    by_layer = {op.name: DistanceSum() for op in shared}
    simulated: list[Mapping[str, NDArray[Any]]] = []
    for sample in samples:
        stored = simulate(program, quantized_inputs(program, sample), watch=watch)
        for name in program.outputs:
            stored[name].setflags(write=False)
        if len(simulated) < KEPT_OUTPUTS:
            simulated.append({name: stored[name] for name in program.outputs})
        expected = reference.run(sample.inputs)
        real = {name: program.tensors[name].format.dequantize(stored[name]) for name in program.outputs}
        for name in program.outputs:
            if not np.isfinite(expected[name]).all():
                raise ModelError(
                    f"the float network gives NaN or infinity in output {name!r}",
                    where=sample.source,
                    remedy="check this input, and the model's weights",
                )
            total.add(real[name], expected[name])
            by_output[name].add(real[name], expected[name])
        on_outputs(expected, real)
        floats = inner.run(sample.inputs)
        for op in shared:
            got = program.tensors[op.output].format.dequantize(stored[op.output])
            by_layer[op.name].add(got, floats[op.output])
        on_sample()
    return FloatVerdict(
        outputs=total.result(),
        by_output={name: part.result() for name, part in by_output.items()},
        layers={name: part.result() for name, part in by_layer.items()},
        watch=watch,
        samples=len(samples),
        simulated=tuple(simulated),
    )
