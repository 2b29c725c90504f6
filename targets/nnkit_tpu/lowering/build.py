"""Restructured ONNX -> ops of the TPU in float, with every refusal at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.quantize.graph_view import GraphView
from nnkit_tpu.lowering import elementwise, shapes, windows
from nnkit_tpu.lowering.fusion import fuse
from nnkit_tpu.lowering.reading import Node, Unsupported
from nnkit_tpu.program import TpuGraph, TpuOp, TpuTensor

Builder = Callable[[Node], TpuOp]

BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {
        "Conv": windows.conv,
        "ConvTranspose": windows.conv_transpose,
        "Gemm": windows.gemm,
        "MatMul": windows.matmul,
        "MaxPool": windows.max_pool,
        "AveragePool": windows.average_pool,
        "GlobalAveragePool": windows.global_pool,
        "GlobalMaxPool": windows.global_pool,
        **dict.fromkeys(("Add", "Sum", "Sub", "Mul", "Div", "Min", "Max"), elementwise.binary),
        "BatchNormalization": elementwise.batch_norm,
        **dict.fromkeys(("Sigmoid", "Tanh", "HardSwish", "Exp", "Abs", "Sqrt"), elementwise.plain_activation),
        "Relu": elementwise.relu,
        "Clip": elementwise.clip,
        "LeakyRelu": elementwise.leaky_relu,
        "PRelu": elementwise.prelu,
        "HardSigmoid": elementwise.hard_sigmoid,
        "Concat": shapes.concat,
        "Slice": shapes.slice_,
        "Split": shapes.split,
        **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), shapes.reshape),
        "Transpose": shapes.transpose,
        "Pad": shapes.pad,
        **dict.fromkeys(("Resize", "Upsample"), shapes.resize),
        **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"), shapes.reduce),
        **dict.fromkeys(("Softmax", "LogSoftmax"), shapes.softmax),
    }
)
"""ONNX op -> what makes the TPU's op of it."""

_TRANSPARENT = ("Identity", "Dropout")


def lower(model: Model, name: str) -> TpuGraph:
    """The ops of `model` (one batch size, static shapes), activations fused where the TPU fuses them.

    Raises ModelError that names every node which has no counterpart, with its op and the reason.
    """
    view = GraphView(model)
    ops: list[TpuOp] = []
    refusals: list[str] = []
    same: dict[str, str] = {}
    for node in view.nodes:
        if node.op_type in _TRANSPARENT:
            same[node.output] = same.get(node.inputs[0], node.inputs[0])
            continue
        try:
            builder = BUILDERS.get(node.op_type)
            if builder is None:
                raise Unsupported("the TPU has no such op")
            wanted = node.outputs if node.op_type == "Split" else node.outputs[:1]
            made = [builder(Node(view, node, output)) for output in wanted]
        except Unsupported as problem:
            refusals.append(f"{node.name} ({node.op_type}): {problem}")
            continue
        ops += [_reading(op, same) for op in made]
    if refusals:
        raise _refused(refusals)
    outputs = tuple(spec.name for spec in model.outputs)
    behind = [name for name in outputs if name in same]
    if behind:
        raise ModelError(
            "this output is a copy of another value",
            where=", ".join(behind),
            remedy="add `remove_identity` to `restructure`",
        )
    inputs = tuple(spec.name for spec in model.inputs)
    fused = fuse(tuple(ops), outputs)
    names = [*inputs, *(op.output for op in fused)]
    tensors = {value: TpuTensor(value, view.shape(value)) for value in names}
    return TpuGraph(name, tensors, fused, inputs, outputs)


def _reading(op: TpuOp, same: Mapping[str, str]) -> TpuOp:
    """The op reading what stands before removed copies."""
    return replace(op, inputs=tuple(same.get(name, name) for name in op.inputs))


def _refused(refusals: Sequence[str]) -> ModelError:
    count = len(refusals)
    lines = "".join(f"\n  {line}" for line in refusals)
    return ModelError(
        f"{count} layer{'s' if count > 1 else ''} cannot run on the TPU:{lines}",
        remedy="replace these layers, tag them `_cpu`, or cut the network before them",
    )
