"""Bias correction, strictly layer by layer.

Quantised weights and inputs shift the mean of a layer's output channels. The shift is measured on calibration images
and taken off the bias, layer after layer, each with inputs from the *already corrected* integer layers before it.
Source: Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019 (the empirical
variant); correcting several layers from one measurement counts a shift more than once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program.affine import AffineConv, AffineOp, AffineTensor
from nnkit.quantize.affine.build import build_op
from nnkit.quantize.affine.float_run import activate, before_activation
from nnkit.quantize.affine.scheme import AffineScheme
from nnkit.quantize.layers import FloatLayers
from nnkit.simulate.affine import accumulate, requantized, run_op


def corrected_ops(
    layers: FloatLayers,
    tensors: Mapping[str, AffineTensor],
    scheme: AffineScheme,
    samples: Mapping[str, NDArray[np.float32]],
) -> tuple[AffineOp, ...]:
    """The program's ops with corrected biases. samples: [N, ...] in real units, by input name."""
    real: dict[str, NDArray[Any]] = {name: samples[name] for name in layers.inputs}
    stored: dict[str, NDArray[Any]] = {
        name: tensors[name].format.quantize(samples[name]).astype(tensors[name].format.dtype)
        for name in layers.inputs
    }
    last = {name: index for index, layer in enumerate(layers.layers) for name in layer.inputs}
    ops: list[AffineOp] = []
    for index, layer in enumerate(layers.layers):
        inputs, codes = [real[name] for name in layer.inputs], [stored[name] for name in layer.inputs]
        values = before_activation(layer, inputs, layers.shapes[layer.output])
        op = build_op(layer, tensors, scheme)
        if isinstance(op, AffineConv) and layer.bias is not None:
            source, out = tensors[layer.inputs[0]], tensors[layer.output]
            acc = accumulate(op, codes[0], source.zero_point, out.shape)
            scales = source.scale * np.asarray(op.weight_format.scale)
            shift = values.mean(axis=(0, 2, 3), dtype=np.float64) - acc.mean(axis=(0, 2, 3)) * scales
            plain = op.bias.astype(np.int64)
            op = build_op(layer, tensors, scheme, bias=layer.bias + shift)
            if isinstance(op, AffineConv):
                acc += (op.bias.astype(np.int64) - plain)[:, None, None]
                stored[layer.output] = requantized(acc, op.requantize, out).astype(out.format.dtype)
        else:
            stored[layer.output] = run_op(op, codes, tensors)
        real[layer.output] = activate(values, layer.activation)
        ops.append(op)
        for name in layer.inputs:
            if last[name] == index:
                real.pop(name, None)
                stored.pop(name, None)
    return tuple(ops)
