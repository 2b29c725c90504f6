"""Restructured ONNX -> ops of the TPU in float, with every refusal at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.quantised_already import refuse_quantised
from nnkit.graph.read.embedding import only_numbers_rows
from nnkit.graph.read.pool import POOL_OPS
from nnkit.graph.read.reshape import RESHAPE_OPS
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.graph.view import GraphView, Node, Shape
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.constraints import CV_CONSTRAINTS, require
from nnkit_tpu.lowering import elementwise, recurrent, shapes, windows
from nnkit_tpu.lowering.fusion import fuse
from nnkit_tpu.lowering.images_first import ImagesFirst
from nnkit_tpu.lowering.reading import Built, not_lowered
from nnkit_tpu.lowering.rectified_outputs import rectified_before_turned
from nnkit_tpu.lowering.repeated import merged, needed, without_idle_reshapes
from nnkit_tpu.lowering.repeats import expand
from nnkit_tpu.lowering.residuals import computed_before_reshapes
from nnkit_tpu.program import TpuGraph, TpuOp, TpuTensor

Builder = Callable[[GraphView, Node], TpuOp | Built]

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Min", "Max")

BUILDERS: Mapping[str, Builder] = MappingProxyType(
    {
        "Conv": windows.conv,
        "ConvTranspose": windows.conv_transpose,
        "Gemm": windows.gemm,
        "MatMul": windows.matmul,
        **dict.fromkeys(POOL_OPS, windows.pool),
        **dict.fromkeys((*_ARITHMETIC, "Sum"), elementwise.binary),
        "BatchNormalization": elementwise.batch_norm,
        **dict.fromkeys(elementwise.PLAIN, elementwise.plain_activation),
        "Gelu": elementwise.gelu,
        "Elu": elementwise.elu,
        "Pow": elementwise.power,
        **dict.fromkeys(("Neg", "Reciprocal"), elementwise.with_a_number),
        **dict.fromkeys(("Relu", "Clip"), elementwise.clip),
        **dict.fromkeys(("LeakyRelu", "PRelu"), elementwise.rectifier),
        "HardSigmoid": elementwise.hard_sigmoid,
        "Concat": shapes.concat,
        "Expand": expand,
        "Slice": shapes.slice_,
        "Split": shapes.split,
        **dict.fromkeys(RESHAPE_OPS, shapes.reshape),
        "Transpose": shapes.transpose,
        "Pad": shapes.pad,
        **dict.fromkeys(("Resize", "Upsample"), shapes.resize),
        **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"), shapes.reduce),
        **dict.fromkeys(("Softmax", "LogSoftmax"), shapes.softmax),
        "LayerNormalization": shapes.layer_norm,
        "Gather": shapes.embedding,
        **dict.fromkeys(("GRU", "LSTM"), recurrent.recurrent),
    }
)
"""ONNX op -> what makes the TPU's op or ops of it."""

_TRANSPARENT = ("Identity", "Dropout")


def lower(model: Model, name: str, chip: str = "") -> TpuGraph:
    """The ops of `model` (one batch size, static shapes), activations fused where the TPU fuses them.

    chip: whose own limits the layers have to keep to as well; none by default.

    Raises ModelError that names every node which has no counterpart, with its op and the reason.
    """
    view = GraphView.of(model)
    refuse_quantised(view, "cannot run on the TPU", "the compiler chooses integers itself")
    ops: list[TpuOp] = []
    made: dict[str, Shape] = {}
    refusals: list[Refusal] = []
    same: dict[str, str] = {}
    for node in view.nodes:
        if node.is_op("Clip", "Cast") and only_numbers_rows(view, node):
            continue
        if node.is_op(*_TRANSPARENT) or _repeats_for_arithmetic(view, node):
            same[node.output] = same.get(node.inputs[0], node.inputs[0])
            continue
        try:
            built = _built(view, node)
            for op in built.ops if chip in CV_CHIPS else ():
                for constraint in CV_CONSTRAINTS:
                    require(constraint, op)
            ops += [_reading(op, same) for op in built.ops]
            made |= built.shapes
        except Refused as refused:
            refusals.append(Refusal(node.name, node.op_type, refused.reason, refused.remedy))

    def shape(value: str) -> Shape:
        return made.get(value) or view.shape(value)

    first = ImagesFirst(merged(needed(ops, view.outputs), view.outputs, shape), shape)
    refusals += first.refusals
    if refusals:
        remedy = "replace these layers, or cut the network before them (`strip_var` with `then: cut`)"
        raise refusal_error(refusals, "cannot run on the TPU", remedy)
    behind = [output for output in view.outputs if output in same]
    if behind:
        raise ModelError(
            "this output is a copy of another value",
            where=", ".join(behind),
            remedy="add `remove_identity` to `restructure`",
        )
    several = [name for name in (*view.inputs, *view.outputs) if first.is_moved(name)]
    if several:
        raise ModelError(
            "the first axis of an input or output is that of images, of which there is one",
            where=", ".join(f"{name} {list(view.shape(name))}" for name in several),
            remedy="export the network for one image, with the batch in front (`batch_first` of recurrent layers)",
        )

    def shape_in_front(value: str) -> Shape:
        return first.shapes.get(value) or shape(value)

    rectified, before = rectified_before_turned(first.ops, view.outputs, shape_in_front)

    def shape_within(value: str) -> Shape:
        return before.get(value) or shape_in_front(value)

    fused = fuse(without_idle_reshapes(rectified, view.inputs, view.outputs, shape_within), view.outputs)
    moved, added = computed_before_reshapes(fused, view.outputs, shape_within)

    def shape_of(value: str) -> Shape:
        return added.get(value) or shape_within(value)

    if added:
        fused = without_idle_reshapes(moved, view.inputs, view.outputs, shape_of)
    names = [*view.inputs, *(op.output for op in fused)]
    tensors = {value: TpuTensor(value, shape_of(value)) for value in names}
    return TpuGraph(name, tensors, fused, view.inputs, view.outputs)


def _repeats_for_arithmetic(view: GraphView, node: Node) -> bool:
    """Whether an Expand is read by arithmetic alone that would repeat its input by itself."""
    if not node.is_op("Expand") or view.constant(node.inputs[0]) is not None or node.output in view.outputs:
        return False
    if len(view.shape(node.inputs[0])) != len(view.shape(node.output)):
        return False
    return all(
        reader.is_op(*_ARITHMETIC)
        and all(
            view.constant(name) is None and view.shape(name) == view.shape(node.output)
            for name in reader.inputs
            if name != node.output
        )
        and set(reader.inputs) != {node.output}
        for reader in view.consumers.get(node.output, ())
    )


def _built(view: GraphView, node: Node) -> Built:
    """The ops of one node. Raises Refused where there are none for it."""
    builder = None if node.domain else BUILDERS.get(node.op_type)
    if builder is None:
        raise not_lowered(node)
    made = builder(view, node)
    return made if isinstance(made, Built) else Built((made,))


def _reading(op: TpuOp, same: Mapping[str, str]) -> TpuOp:
    """The op reading what stands before removed copies."""
    return replace(op, inputs=tuple(same.get(name, name) for name in op.inputs))
