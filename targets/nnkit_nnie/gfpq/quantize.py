"""The network and its calibration to a Program: which layer reads what in which format, and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import InternalError, ModelError
from nnkit.graph import Model
from nnkit.graph.read.activation import activation_parameters, read_slopes
from nnkit.graph.read.conv import Conv
from nnkit.graph.read.fully_connected import FullyConnected
from nnkit.graph.subgraph import subgraph
from nnkit.graph.view import GraphView, Node
from nnkit.input_range import InputRange
from nnkit.program import Fixed, Float, OpBase, Program, Tensor, Window
from nnkit.program.op import Placement
from nnkit_nnie.gfpq.float64_layers import ActivationKind, InPlaceActivation
from nnkit_nnie.gfpq.group_weights import group_scales, quantize_groups
from nnkit_nnie.gfpq.number_format import Gfpq, GfpqBits
from nnkit_nnie.gfpq.ops import STORED, CpuLayer, NnieLayer, NnieWeighted
from nnkit_nnie.layer_kinds import MOVING_KINDS
from nnkit_nnie.layers import SHAPING_OPS, Layer
from nnkit_nnie.network import Network
from nnkit_nnie.operators import Weighted, read_weighted
from nnkit_nnie.options import NnieOptions

_MIXED, _HIGH = 2, 1


@dataclass(frozen=True)
class Precision:
    """Bits of each layer. hp: names of layers in 16 bits in compile mode 2 (beside 0: none, and 1: all)."""

    compile_mode: int
    hp: frozenset[str]

    def bits(self, layer: Layer) -> GfpqBits:
        """8 or 16."""
        if self.compile_mode == _HIGH or (self.compile_mode == _MIXED and layer.name in self.hp):
            return 16
        return 8

    @classmethod
    def of(cls, network: Network, compile_mode: int) -> Precision:
        """The precision that the layers' tags ask for."""
        return cls(compile_mode, frozenset(layer.name for layer in network.layers if layer.hp))


def to_program(
    network: Network,
    statistics: CalibrationStats,
    precision: Precision,
    *,
    name: str,
    inputs: Mapping[str, Fixed | Float],
) -> Program:
    """The program of a divided network.

    inputs: format of every input: raw pixels unsigned 8 bits, what the chip normalises float, vectors S20.12.

    Raises ModelError where calibration has no range for a value that the NNIE reads.
    """
    graph = network.graph
    tensors: dict[str, Tensor] = {}
    for spec in graph.model.inputs:
        shape = stored_shape(spec.shape)
        form = inputs[spec.name]
        if isinstance(form, Float):
            tensors[spec.name] = Tensor(spec.name, shape, form)
        else:
            tensors[spec.name] = Tensor(spec.name, shape, form, form.qmin, form.qmax)
    ops: list[OpBase] = []
    for layer in network.layers:
        for position, value in enumerate(layer.outputs):
            formats = Formats(
                stored=tuple(_storage(tensors[name]) for name in layer.inputs),
                read_as=_read_formats(layer, statistics, precision.bits(layer)),
                bits=precision.bits(layer),
                from_cpu=_from_cpu(layer, tensors, graph),
            )
            op = layer_op(graph, layer, value, position, formats)
            if isinstance(op, CpuLayer) and value in statistics.ranges:
                op = replace(op, magnitude=statistics.ranges[value].max_abs)
            ops.append(op)
            tensors[value] = _tensor(value, graph.shape(value), layer.placement)
            if layer.name == network.split_at:
                tensors[value] = _warped(value, graph.shape(value), tensors[layer.inputs[0]])
    return Program(
        name=name,
        tensors=tensors,
        ops=tuple(ops),
        inputs=graph.inputs,
        outputs=graph.outputs,
        numerics="nnkit_nnie.gfpq.ops",
        notes=(*network.notes, *_notes_on_integers(ops)),
    )


def _notes_on_integers(ops: Sequence[OpBase]) -> list[str]:
    """A note for each sort of integer that some layers have in more than 32 bits."""
    notes = []
    beyond = {op.layer: op.beyond_32_bits for op in ops if isinstance(op, NnieWeighted)}
    for kind in ("bias", "multiplier"):
        layers = [layer for layer, kinds in beyond.items() if kind in kinds]
        if layers:
            shown = ", ".join(layers[:3]) + (f" and {len(layers) - 3} more" if len(layers) > 3 else "")
            notes.append(
                f"a {kind} of {shown} takes more than the 32 bits that compiled networks have for it: what the "
                "mapper makes of that is not known, and the simulation computes with all of it"
            )
    return notes


PIXELS = Fixed(8, 0, signed=False)
"""Raw pixels."""


def input_formats(model: Model, ranges: Mapping[str, InputRange], options: NnieOptions) -> dict[str, Fixed | Float]:
    """How each input is stored: raw pixels, normalised pixels, or a vector. ranges: of inputs made from images."""
    formats: dict[str, Fixed | Float] = {}
    for spec in model.inputs:
        wanted = options.inputs.get(spec.name)
        image = spec.name in ranges and (wanted is None or wanted.image_type != "vector")
        formats[spec.name] = (PIXELS if ranges[spec.name].integral else Float(32)) if image else STORED
    return formats


def input_storage(program: Program, name: str) -> Fixed | Float:
    """The format of a program's input."""
    return _storage(program.tensors[name])


def stored_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a tensor of the program: without the batch axis, where that is 1."""
    return shape[1:] if shape[:1] == (1,) else shape


def _tensor(name: str, shape: tuple[int, ...], placement: Placement) -> Tensor:
    if placement == "cpu":
        return Tensor(name, stored_shape(shape), Float(32))
    return Tensor(name, stored_shape(shape), STORED, STORED.qmin, STORED.qmax)


def _warped(name: str, shape: tuple[int, ...], image: Tensor) -> Tensor:
    """The warped image is an input of the next network, and stored as the image is.

    Raises ModelError where the chip normalises the image: the CPU sees the pixels before that.
    """
    if isinstance(image.format, Float):
        raise ModelError(
            f"the CPU warps the pixels of '{image.name}', which the chip normalises when it reads them",
            where=name,
            remedy="give the network raw pixels (mean 0, scale 1) and let its first layers normalise behind the warp "
            "(the rewrite warp_before_affine moves what stands before it)",
        )
    return replace(image, name=name, shape=stored_shape(shape))


@dataclass(frozen=True)
class Formats:
    """How a layer's inputs are stored and read, one entry each, and the bits of its weights."""

    stored: tuple[Fixed | Float, ...]
    read_as: tuple[Gfpq | None, ...]
    bits: GfpqBits
    from_cpu: tuple[bool, ...] = ()


def layer_op(graph: GraphView, layer: Layer, value: str, position: int, formats: Formats) -> OpBase:
    """The op that computes `value`, the layer's top number `position`."""
    inputs = layer.inputs
    fields: dict[str, Any] = {
        "name": layer.name if position == 0 else f"{layer.name}:{position}",
        "inputs": inputs,
        "output": value,
        "tags": tuple(tag for tag, on in (("hp", layer.hp), ("cpu", layer.cpu)) if on),
        "layer": layer.name,
        "caffe_type": layer.kind,
        "stored": formats.stored,
        "shapes": tuple(graph.shape(name) for name in inputs),
        "output_shape": graph.shape(value),
    }
    operator = read_weighted(graph, layer) if layer.placement == "npu" else None
    if operator is not None:
        return _weighted(graph, layer, operator, formats, fields)
    part = subgraph(graph, layer.nodes, inputs, layer.outputs)
    fields |= {"graph": part.onnx_bytes, "names": inputs, "fetch": value}
    if layer.placement == "cpu":
        return CpuLayer(**fields, placement="cpu", accumulator="float32")
    return NnieLayer(**fields, accumulator="float32", from_cpu=formats.from_cpu, read_as=formats.read_as)


def _storage(tensor: Tensor) -> Fixed | Float:
    return tensor.format if isinstance(tensor.format, Float) else tensor.fixed


def _from_cpu(layer: Layer, tensors: Mapping[str, Tensor], graph: GraphView) -> tuple[bool, ...]:
    """Which inputs of an NNIE layer a CPU segment makes; empty where none."""
    made = tuple(isinstance(tensors[name].format, Float) and name not in graph.inputs for name in layer.inputs)
    return made if layer.placement == "npu" and any(made) else ()


def _read_formats(layer: Layer, statistics: CalibrationStats, bits: GfpqBits) -> tuple[Gfpq | None, ...]:
    """The formats in which a layer reads its inputs; None for layers that only place values, and for CPU layers."""
    if layer.placement == "cpu" or (layer.kind in MOVING_KINDS and not layer.in_place):
        return (None,) * len(layer.inputs)
    return tuple(_read_format(value, layer, statistics, bits) for value in layer.inputs)


def _read_format(value: str, layer: Layer, statistics: CalibrationStats, bits: GfpqBits) -> Gfpq:
    seen = statistics.ranges.get(value)
    if seen is None or not np.isfinite(seen.max_abs):
        raise ModelError(
            f"calibration has no range for value {value!r}",
            where=layer.name,
            remedy="calibrate again with the network as it is now",
        )
    return Gfpq.for_magnitude(bits, seen.max_abs)


def _weighted(
    graph: GraphView, layer: Layer, operator: Weighted, formats: Formats, fields: Mapping[str, Any]
) -> NnieWeighted:
    """The op of a layer with constant weights; fields: what it has in common with other layers."""
    read_as = formats.read_as[0]
    if read_as is None:
        raise InternalError("a layer with weights reads its input through GFPQ", where=layer.name)
    others = [n for n in layer.nodes if n is not layer.main and n.op_type not in (*SHAPING_OPS, *_ACTIVATIONS)]
    if others:
        raise InternalError(f"node {others[0].op_type} has no place in a {layer.kind}", where=layer.name)
    weight, bias, window, groups = _numbers(operator)
    scales = group_scales(weight, groups, formats.bits)
    return NnieWeighted(
        **fields,
        accumulator="int64",
        from_cpu=formats.from_cpu,
        read_as=read_as,
        weight=quantize_groups(weight, scales),
        weight_scales=scales,
        bias=bias,
        window=window,
        groups=groups,
        activations=tuple(_activation(graph, each) for each in layer.nodes if _is_in_place(each, layer)),
    )


def _numbers(operator: Weighted) -> tuple[NDArray[np.float64], NDArray[np.float64], Window, int]:
    """Weights as `NnieWeighted` has them, bias [O], window and groups."""
    if isinstance(operator, FullyConnected):
        bias = operator.bias(np.float64)
        bias = np.zeros(operator.outputs) if bias is None else bias.copy()
        return operator.weight(np.float64), bias, Window(1, 1), 1
    weight = np.asarray(operator.weight, np.float64)
    if isinstance(operator, Conv):
        shape, pads, outputs = operator.window, operator.window.pads_read, weight.shape[0]
        window = Window(*shape.kernel, *shape.strides, *shape.dilations, *pads)
    else:
        outputs = operator.output_channels
        window = Window(*operator.kernel, *operator.strides, *operator.dilations, *operator.pads)
    bias = np.zeros(outputs) if operator.bias is None else np.array(operator.bias, np.float64).reshape(outputs)
    return weight, bias, window, operator.groups


def _is_in_place(node: Node, layer: Layer) -> bool:
    return node.op_type in _ACTIVATIONS and node.index > layer.main.index


_ACTIVATIONS: Mapping[str, ActivationKind] = {
    "Relu": "relu",
    "LeakyRelu": "leaky",
    "PRelu": "prelu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Abs": "abs",
    "Softplus": "softplus",
    "Elu": "elu",
}


def _activation(graph: GraphView, node: Node) -> InPlaceActivation:
    kind = _ACTIVATIONS[node.op_type]
    slopes = np.zeros(1)
    if kind in ("leaky", "prelu"):
        slopes = read_slopes(graph, node).astype(np.float64)
    elif kind == "elu":
        slopes = np.asarray(activation_parameters(node))
    return InPlaceActivation(kind, slopes)
