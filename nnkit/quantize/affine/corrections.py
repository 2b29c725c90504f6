"""Adaptive rounding and bias correction, strictly layer by layer, in memory that does not grow with the samples.

Each layer is measured behind integer layers that are already corrected, beside the float layers before it. First its
weights are rounded as its outputs need (`adaround`, where asked for), then the shift of the mean of its output
channels, which quantised weights and inputs leave, is taken off its bias.
Source of the bias correction: Nagel et al., "Data-free quantization through weight equalization and bias correction",
2019 (the empirical variant); correcting several layers from one measurement counts a shift more than once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program.affine import AffineConv, AffineOp, AffineTensor
from nnkit.quantize.affine.adaround import AdaRound, Moments, RoundingReport, adapt
from nnkit.quantize.affine.build import build_op
from nnkit.quantize.affine.float_run import activate, before_activation
from nnkit.quantize.affine.ranges import WeightFormats
from nnkit.quantize.affine.spool import DEFAULT_BYTES, Spool
from nnkit.quantize.float_program import FloatConvolution, FloatOp, FloatProgram

_PART = 8  # samples that are run together


def corrected_ops(
    layers: FloatProgram,
    tensors: Mapping[str, AffineTensor],
    formats: WeightFormats,
    samples: Mapping[str, NDArray[np.float32]],
    *,
    adaround: AdaRound | None = None,
    memory_bytes: int = DEFAULT_BYTES,
    on_rounding: Callable[[RoundingReport], object] = lambda report: None,
    on_layer: Callable[[int], object] = lambda index: None,
) -> tuple[AffineOp, ...]:
    """The program's ops with corrected weights and biases. samples: [N, ...] in real units, by input name.

    memory_bytes: for the values between layers; beyond it they go to temporary files. It changes no result.
    on_layer: called with the index of each layer before it is taken up.

    Raises UserFileError where the temporary folder is full.
    """
    started = time.perf_counter()
    with Spool(memory_bytes) as spool:
        walk = _Walk(layers, tensors, formats, spool, len(next(iter(samples.values()))))
        walk.load(samples)
        last = {name: index for index, layer in enumerate(layers.ops) for name in layer.inputs}
        ops = []
        for index, layer in enumerate(layers.ops):
            on_layer(index)
            spent = time.perf_counter() - started
            search = adaround
            if search is not None and search.seconds is not None and spent > search.seconds:
                search = None
            ops.append(walk.layer(layer, search, on_rounding))
            for name in {*layer.inputs, *([layer.output] if layer.output not in last else [])}:
                if last.get(name, index) == index:
                    walk.forget(name)
        return tuple(ops)


class _Walk:
    """Float and stored values of the samples, part by part, as they pass the layers."""

    def __init__(
        self,
        layers: FloatProgram,
        tensors: Mapping[str, AffineTensor],
        formats: WeightFormats,
        spool: Spool,
        count: int,
    ) -> None:
        self._layers, self._tensors, self._formats, self._spool = layers, tensors, formats, spool
        self._scheme = formats.scheme
        self._count = count
        self._parts = range(-(-count // _PART))

    def load(self, samples: Mapping[str, NDArray[np.float32]]) -> None:
        """The network's inputs."""
        for name in self._layers.inputs:
            form = self._tensors[name].format
            for part in self._parts:
                values = samples[name][part * _PART : (part + 1) * _PART]
                self._spool.put(f"{name} real", part, values)
                self._spool.put(f"{name} stored", part, form.quantize(values).astype(form.dtype))

    def forget(self, name: str) -> None:
        """A value that no layer reads any more."""
        for part in self._parts:
            self._spool.drop(f"{name} real", part)
            self._spool.drop(f"{name} stored", part)

    def _real(self, layer: FloatOp, part: int) -> list[NDArray[Any]]:
        return [self._spool.get(f"{name} real", part) for name in layer.inputs]

    def _stored(self, layer: FloatOp, part: int) -> list[NDArray[Any]]:
        return [self._spool.get(f"{name} stored", part) for name in layer.inputs]

    def layer(
        self, layer: FloatOp, search: AdaRound | None, on_rounding: Callable[[RoundingReport], object]
    ) -> AffineOp:
        """The layer's op; its values take the place behind it."""
        op = build_op(layer, self._tensors, self._formats)
        out = self._tensors[layer.output]
        if not isinstance(op, AffineConv) or not isinstance(layer, FloatConvolution):
            for part in self._parts:
                values = before_activation(layer, self._real(layer, part), self._layers.shapes[layer.output])
                self._spool.put(f"{layer.output} real", part, activate(values, layer.nonlinearity))
                stored = op.compute_many(self._stored(layer, part), self._tensors)
                self._spool.put(f"{layer.output} stored", part, stored)
            return op
        mean = self._float_pass(layer)
        coarse = op.weight_format.bits == 8  # with 16 bits the nearest is as good as any other
        if search is not None and coarse and not op.transposed and layer.stored is None:
            op = self._rounded(layer, op, search, on_rounding)
        total: NDArray[np.float64] = np.zeros(len(mean))
        dtype = np.dtype(op.accumulator)
        for part in self._parts:
            acc = self._accumulated(op, layer, part)
            total += acc.sum(axis=(0, 2, 3))
            self._spool.put("sums", part, acc.astype(dtype))
        plain = op.bias.astype(np.int64)
        if self._scheme.bias_correction:
            op = self._unbiased(layer, op, mean - total / self._positions(layer) * self._scales(layer, op))
        moved = (op.bias.astype(np.int64) - plain)[:, None, None]
        for part in self._parts:
            acc = self._spool.get("sums", part).astype(np.int64) + moved
            stored = op.requantize.stored(acc, out).astype(out.format.dtype)
            self._spool.put(f"{layer.output} stored", part, stored)
            values = self._spool.get("before activation", part)
            self._spool.put(f"{layer.output} real", part, activate(values, layer.nonlinearity))
            self._spool.drop("before activation", part)
            self._spool.drop("sums", part)
        return op

    def _float_pass(self, layer: FloatOp) -> NDArray[np.float64]:
        """The float layer's values before its activation, kept, and the mean of their channels."""
        total: NDArray[np.float64] = np.zeros(self._layers.shapes[layer.output][0])
        for part in self._parts:
            values = before_activation(layer, self._real(layer, part), self._layers.shapes[layer.output])
            total += values.sum(axis=(0, 2, 3), dtype=np.float64)
            self._spool.put("before activation", part, values)
        return np.asarray(total / self._positions(layer))

    def _positions(self, layer: FloatOp) -> int:
        return self._count * int(np.prod(self._layers.shapes[layer.output][1:]))

    def _accumulated(self, op: AffineConv, layer: FloatOp, part: int) -> NDArray[np.int64]:
        source = self._tensors[layer.inputs[0]]
        return op.accumulators(self._stored(layer, part)[0], source, self._tensors[layer.output].shape)

    def _scales(self, layer: FloatOp, op: AffineConv) -> NDArray[np.float64]:
        """Real units of the op's sums, [1] or [O]."""
        return np.asarray(self._tensors[layer.inputs[0]].scale * np.asarray(op.weight_format.scale))

    def _unbiased(self, layer: FloatConvolution, op: AffineConv, shift: NDArray[np.float64]) -> AffineConv:
        bias = layer.bias + shift  # in real units, rounded once
        built = build_op(layer, self._tensors, self._formats, bias=bias, weight=op.weight)
        return built if isinstance(built, AffineConv) else op

    def _rounded(
        self,
        layer: FloatConvolution,
        op: AffineConv,
        search: AdaRound,
        on_rounding: Callable[[RoundingReport], object],
    ) -> AffineConv:
        started = time.perf_counter()
        source, form = self._tensors[layer.inputs[0]], op.weight_format
        outputs = layer.weight.shape[0] // layer.groups
        moments = Moments(layer.groups, int(np.prod(layer.weight.shape[1:])), outputs)
        pad = float(source.format.dequantize(np.asarray(op.pad_value)))
        bias = layer.bias.astype(np.float32)[:, None, None]
        for part in self._parts:
            x = source.format.dequantize(self._stored(layer, part)[0]).astype(np.float32)
            moments.add(x, self._spool.get("before activation", part) - bias, op.window, pad)
        zero = np.asarray(form.zero_point, np.float64).reshape(-1, 1, 1, 1)
        scales = np.broadcast_to(np.asarray(form.scale, np.float64), (layer.weight.shape[0],))
        lowest = -127 if self._scheme.symmetric_weights else form.qmin
        units = np.clip(layer.weight / scales[:, None, None, None], lowest - zero, form.qmax - zero)
        rounded, flips, ratio = adapt(units, scales, moments, search.steps, centred=self._scheme.bias_correction)
        on_rounding(RoundingReport(layer.name, search.steps, flips, ratio, time.perf_counter() - started))
        return replace(op, weight=(rounded + zero).astype(op.weight.dtype))
