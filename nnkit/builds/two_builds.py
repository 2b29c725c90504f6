"""Two builds of one network, layer by layer, on the inputs that the first one kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnkit.builds.folder import BuiltFolder
from nnkit.distance import Distance, DistanceSum
from nnkit.errors import UsageError, UserFileError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Format
from nnkit.program.formats import Affine
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate


@dataclass(frozen=True)
class LayerPair:
    """A value that both builds have.

    layer: the first build's name of the layer that makes it. distance: of the second from the first, real units.
    first_db, second_db: SQNR of each against the first build's float network; None where that has no such value.
    formats: one where both store it alike, else `first -> second`.
    """

    layer: str
    tensor: str
    distance: Distance
    first_db: float | None
    second_db: float | None
    formats: str


@dataclass(frozen=True)
class TwoBuilds:
    """Pairs in the order of the first build; the values that one build computes and the other does not; how many
    inputs were compared."""

    pairs: tuple[LayerPair, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    inputs: int


def compare_builds(first: BuiltFolder, second: BuiltFolder) -> TwoBuilds:
    """Run both programs and the float network.

    Raises UserFileError where the first build kept no inputs, UsageError where the two have nothing in common.
    """
    a, b = first.program, second.program
    samples = [Sample(str(index), given) for index, given in enumerate(first.kept_inputs())]
    if not samples:
        raise UserFileError("no verification inputs in this build", where=str(first.folder), remedy="build it again")
    inputs = [", ".join(f"{n} {list(p.tensors[n].shape)}" for n in sorted(p.inputs)) for p in (a, b)]
    if inputs[0] != inputs[1]:
        raise UsageError(
            f"the two builds have different inputs: {inputs[0]} and {inputs[1]}",
            where=str(second.folder),
            remedy="compare two builds of one network",
        )
    computed = {op.output for op in b.ops}
    shared = [
        op for op in a.ops if op.output in computed and a.tensors[op.output].shape == b.tensors[op.output].shape
    ]
    if not shared:
        raise UsageError(
            "the two builds have no layer in common: no value has the same name and shape in both",
            where=str(second.folder),
            remedy="compare two builds of one network",
        )
    names = [op.output for op in shared]
    network = first.model("restructured.onnx")
    in_float = {name for node in network.proto().graph.node for name in node.output}
    session = FloatSession(network, fetch=[name for name in names if name in in_float])
    apart, from_float = (
        {name: DistanceSum() for name in names},
        {name: (DistanceSum(), DistanceSum()) for name in names},
    )
    for sample in samples:
        left, right = (simulate(program, quantized_inputs(program, sample)) for program in (a, b))
        expected = session.run(sample.inputs)
        for name in names:
            ours, theirs = (
                np.asarray(program.tensors[name].format.dequantize(values[name]))
                for program, values in ((a, left), (b, right))
            )
            apart[name].add(theirs, ours)
            if name in expected:
                from_float[name][0].add(ours, expected[name])
                from_float[name][1].add(theirs, expected[name])
    pairs = []
    for op in shared:
        known = op.output in in_float
        first_db, second_db = (total.result().sqnr_db if known else None for total in from_float[op.output])
        formats = _formats(a.tensors[op.output].format, b.tensors[op.output].format)
        pairs.append(LayerPair(op.name, op.output, apart[op.output].result(), first_db, second_db, formats))
    return TwoBuilds(
        tuple(pairs),
        tuple(op.output for op in a.ops if op.output not in names),
        tuple(op.output for op in b.ops if op.output not in names),
        len(samples),
    )


def _formats(one: Format, other: Format) -> str:
    return brief_format(one) if one == other else f"{brief_format(one)} -> {brief_format(other)}"


def brief_format(form: Format) -> str:
    """`u8 0.0152@126`: an affine format's scale and zero point; any other as reports have it."""
    if isinstance(form, Affine) and form.axis is None:
        return f"{'s' if form.signed else 'u'}{form.bits} {form.scale[0]:.3g}@{form.zero_point[0]}"
    return str(form)
