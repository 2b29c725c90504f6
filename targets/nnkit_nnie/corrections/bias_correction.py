"""Biases that take back the shift of each channel's mean, as GFPQ's rounded inputs and weights make it.

Layers are corrected in order, each on what corrected layers before it give, by the float network's sums before the
activation. Where the largest weights of a channel are cut, in a depthwise layer by up to 4 %, its mean moves too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate_op
from nnkit_nnie.corrections.weights_edit import WeightsEdit
from nnkit_nnie.gfpq.ops import STORED, NnieWeighted
from nnkit_nnie.layers import Layer
from nnkit_nnie.network import Network

Array = NDArray[np.float64]


def correct_biases(
    network: Network,
    program: Program,
    edit: WeightsEdit,
    samples: Sequence[Sample],
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Change the biases in `edit`, a copy of the model that network and program were made of; returns of how many
    layers.

    A layer whose bias is not in the model for it alone, one number an output, stays as it is.
    """
    sums = {layer.name: layer.main.output for layer in network.layers if _adds_plainly(layer)}
    wanted = {
        op.layer
        for op in program.ops
        if isinstance(op, NnieWeighted) and op.layer in sums and _has_own_bias(edit, sums[op.layer], op.bias.size)
    }
    means = _means(network, [sums[name] for name in wanted], samples)
    values: list[dict[str, NDArray[Any]]] = [dict(quantized_inputs(program, sample)) for sample in samples]
    last = {name: index for index, op in enumerate(program.ops) for name in op.inputs}
    for index, op in enumerate(program.ops):
        say(f"bias correction, layer {index + 1} of {len(program.ops)}")
        if isinstance(op, NnieWeighted) and op.layer in wanted:
            op = _corrected(op, program, [known[op.inputs[0]] for known in values], means[sums[op.layer]])
            _write(edit, sums[op.layer], op.bias)
        for known in values:
            known[op.output] = simulate_op(program, op, [known[name] for name in op.inputs])
            for name in set(op.inputs):
                if last[name] == index:
                    del known[name]
    return len(wanted)


def _adds_plainly(layer: Layer) -> bool:
    node = layer.main
    return node.is_op("Conv", "ConvTranspose") or (node.is_op("Gemm") and node.number("beta", 1.0) == 1.0)


def _has_own_bias(edit: WeightsEdit, node: str, outputs: int) -> bool:
    if not edit.has(node, 2):
        return True
    return edit.owns(node, 2) and edit.constant(node, 2).size == outputs


def _means(network: Network, values: Sequence[str], samples: Sequence[Sample]) -> dict[str, Array]:
    """By value, the mean of each channel [C] over samples and positions, in float."""
    session = FloatSession(network.graph.model, fetch=list(values))
    totals: dict[str, Array] = {}
    for sample in samples:
        for name, value in session.run(sample.inputs).items():
            totals[name] = totals.get(name, 0.0) + _channel_mean(value)
    return {name: total / len(samples) for name, total in totals.items()}


def _channel_mean(values: NDArray[Any]) -> Array:
    """[N, C, ...] -> [C]."""
    return np.asarray(values.mean(axis=(0, *range(2, values.ndim)), dtype=np.float64))


def _corrected(op: NnieWeighted, program: Program, inputs: Sequence[NDArray[Any]], mean: Array) -> NnieWeighted:
    """The layer with the bias that gives the float mean [O] on these inputs."""
    before = replace(op, activations=())
    computed = np.zeros(op.bias.size)
    for given in inputs:
        stored = simulate_op(program, before, [given]).reshape(op.output_shape)
        computed += _channel_mean(STORED.dequantize(stored))
    return replace(op, bias=op.bias + (mean - computed / len(inputs)))


def _write(edit: WeightsEdit, node: str, bias: Array) -> None:
    if edit.has(node, 2):
        edit.set_constant(node, 2, bias.reshape(edit.constant(node, 2).shape))
    else:
        edit.add_bias(node, bias)
