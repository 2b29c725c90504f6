"""Convolutions and pools: a window that slides over a map of one or two dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from nnkit.cpu_segments.calls import Call, Lowered, Read, RefusedError, Struct, Write
from nnkit.cpu_segments.graph import Layer
from nnkit.graph.padding import explicit_pads


def conv(layer: Layer) -> Lowered:
    kernel = layer.shape(1)[2:]
    window = _window(layer, kernel, int(layer.attribute("group", 1)))
    bias = Read(layer.input(2)) if layer.has(2) else "0"
    return [
        Call("conv", "nnkit_conv", (Read(layer.input(0)), Read(layer.input(1)), bias, Write(layer.output), window))
    ]


def conv_transpose(layer: Layer) -> Lowered:
    kernel = layer.shape(1)[2:]
    if layer.attribute("output_shape", None) is not None or _auto_pad(layer) != "NOTSET":
        raise RefusedError("states its output's shape instead of its pads")
    window = _window(layer, kernel, int(layer.attribute("group", 1)))
    bias = Read(layer.input(2)) if layer.has(2) else "0"
    arguments = (Read(layer.input(0)), Read(layer.input(1)), bias, Write(layer.output), window)
    return [Call("conv_transpose", "nnkit_conv_transpose", arguments)]


def max_pool(layer: Layer) -> Lowered:
    if len([name for name in layer.node.output if name]) > 1:
        raise RefusedError("gives the indices of its maxima")
    window = _window(layer, layer.attribute("kernel_shape", ()), 1)
    return [Call("pool", "nnkit_max_pool", (Read(layer.input(0)), Write(layer.output), window))]


def average_pool(layer: Layer) -> Lowered:
    window = _window(layer, layer.attribute("kernel_shape", ()), 1)
    count_pad = str(int(layer.attribute("count_include_pad", 0)))
    return [Call("pool", "nnkit_average_pool", (Read(layer.input(0)), Write(layer.output), window, count_pad))]


def _window(layer: Layer, kernel: Sequence[int], groups: int) -> Struct:
    rank = len(kernel)
    if rank not in (1, 2) or len(layer.shape(0)) != rank + 2:
        raise RefusedError("slides over neither one nor two dimensions")
    dilations = _pair(layer.attribute("dilations", [1] * rank))
    steps = _pair(layer.attribute("strides", [1] * rank))
    sides = _pair(kernel)
    (_, channels, *size), (_, out_channels, *out_size) = layer.shape(0), layer.out_shape
    height, width = _pair(size)
    out_height, out_width = _pair(out_size)
    pads = layer.attribute("pads", [0] * 2 * rank)
    pads = pads if rank == 2 else (0, pads[0], 0, pads[1])
    pads = explicit_pads(
        _auto_pad(layer),
        pads,
        kernel=sides,
        strides=steps,
        dilations=dilations,
        input_hw=(height, width),
        output_hw=(out_height, out_width),
    )
    numbers = (
        channels,
        height,
        width,
        out_channels,
        out_height,
        out_width,
        *sides,
        *steps,
        *dilations,
        *pads,
        groups,
    )
    return Struct("nnkit_window", "{" + ", ".join(str(int(value)) for value in numbers) + "}")


def _pair(values: Sequence[int]) -> tuple[int, int]:
    """(height, width); a one-dimensional map is one row."""
    return (1, int(values[0])) if len(values) == 1 else (int(values[0]), int(values[1]))


def _auto_pad(layer: Layer) -> str:
    return str(layer.attribute("auto_pad", "NOTSET"))
