"""Replace the N images that a network was trained on by the one that it is used on.

Change: the network computes for one image what it computed for each.
  An input [N, C, H, W] becomes [1, C, H, W], and so does the batch of every value after it.
  Where N inputs [1, C, H, W] are concatenated along the batch (the left and the right half of a face), one of them
  stays, and the Concat goes.
  Where the images come together again, by a reshape of the batch into the features or by another layer that mixes
  images, the network ends: the outputs behind that layer give way to the values that it read. What followed (the
  projection of the full face, say) is for the CPU, or for add_pca, half_face_pca and split_full_face_pca.
Options: `input`, the one that stays.
Refused for a network that takes one image already, and where inputs are changed before they are concatenated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph import Model
from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.reduce import read_reduce
from nnkit.graph.read.slice import read_slice
from nnkit.graph.read.transpose import read_transpose
from nnkit.recipe.restructure import ReplaceInput
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, copied
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op, operand, read, read_or_none
from nnkit.samples import NetworkInputs

if TYPE_CHECKING:
    import onnx_ir as ir

# fmt: off
_BY_IMAGE = frozenset({
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN",
    "BatchNormalization", "InstanceNormalization", "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Sigmoid",
    "HardSigmoid", "HardSwish", "Tanh", "Softplus", "Clip", "Abs", "Neg", "Exp", "Log", "Sqrt", "Reciprocal",
    "Floor", "Ceil", "Identity", "Cast", "Dropout", "Resize", "Upsample", "DepthToSpace", "SpaceToDepth",
    "Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean",
})
# fmt: on
"""Operators that compute each image by itself, given constants that do not vary over the batch."""

_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean")
_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceL1")
_AXIS_OPS = ("Concat", "Softmax", "LogSoftmax", "LpNormalization", "Split", "Flatten", "Gather", "ArgMax")
_SHAPES = ("Reshape", "Squeeze", "Unsqueeze")


def make(options: ReplaceInput, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("replace_input", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: ReplaceInput, where: str) -> Edited:
    import onnx_ir as ir

    editor = Editor(model, where)
    joined = _batch_concat(editor)
    if joined is not None:
        kept, row = _joined_input(editor, joined, options.input)
        start, count = joined.outputs[0], len(joined.inputs)
        others = [str(value.name) for value in joined.inputs if value is not None and value is not kept]
    else:
        kept = _batched_input(editor, options.input)
        start, count, row, others = kept, editor.shape(kept)[0], 0, []
    batched, ends = _by_image(editor, start, count)
    outputs = _outputs(editor, batched, ends)
    _shrink_reshapes(editor, batched, count)
    if joined is not None:
        for reader in editor.users(start):
            editor.set_inputs(reader, [kept if value is start else value for value in reader.inputs])
    else:
        kept.shape = ir.Shape((1, *editor.shape(kept)[1:]))
    editor.set_outputs(outputs)
    names, parts = editor.output_names, {str(value.name) for value in batched}

    def feeds(sample: NetworkInputs) -> NetworkInputs:
        return {name: array[:1] for name, array in sample.items() if name not in others}

    def expected(values: Values) -> Mapping[str, Expected]:
        def part(name: str) -> Expected:
            size = values[name].shape[0] // count
            return copied(values[name][row * size :][:size] if name in parts else values[name])

        return {name: part(name) for name in names}

    effect = f"one image at '{kept.name}' instead of {count}; the outputs are {', '.join(repr(n) for n in names)}"
    if ends:
        layers = ", ".join(repr(editor.layer(node)) for node in ends)
        effect += f", because {layers} brings the images together"
    return Edited(editor.finish_edit(), (str(kept.name), *others), effect, tuple(names), expected, feeds)


def _batch_concat(editor: Editor) -> ir.Node | None:
    """The Concat along the batch whose inputs are network inputs."""
    for node in editor.nodes():
        if is_op(node, "Concat") and read(editor, node, read_concat).axis == 0:
            if all(value is not None and value.is_graph_input() for value in node.inputs):
                return node
            if len(editor.shape(node.outputs[0])) == 4 and all(_is_one_image(editor, v) for v in node.inputs):
                raise editor.refused(
                    f"'{editor.layer(node)}' concatenates images that earlier layers have changed",
                    "move what changes them (a flip, a normalisation) to the preprocessing of the inputs",
                )
    return None


def _is_one_image(editor: Editor, value: ir.Value | None) -> bool:
    return value is not None and editor.array(value) is None and editor.shape(value)[0] == 1


def _joined_input(editor: Editor, joined: ir.Node, wanted: str | None) -> tuple[ir.Value, int]:
    """The input that stays, and which of the images it is."""
    names = [str(value.name) for value in joined.inputs if value is not None]
    kept = names[0] if wanted is None else wanted
    if kept not in names:
        raise editor.refused(f"'{kept}' is not concatenated", f"name one of {', '.join(names)}")
    for value in dict.fromkeys(value for value in joined.inputs if value is not None):
        if len(editor.users(value)) > 1:
            raise editor.refused(
                f"input '{value.name}' is read by other layers, too", "cut the network before them with keep_output"
            )
    row = names.index(kept)
    return next(value for value in editor.graph.inputs if value.name == kept), row


def _batched_input(editor: Editor, wanted: str | None) -> ir.Value:
    inputs = {str(value.name): value for value in editor.graph.inputs}
    several = [name for name, value in inputs.items() if editor.shape(value)[:1] > (1,)]
    name = wanted or next(iter(several or inputs))
    if name not in inputs:
        raise editor.refused(f"the network has no input '{name}'", f"its inputs are: {', '.join(inputs)}")
    if editor.shape(inputs[name])[0] == 1:
        raise editor.refused(f"input '{name}' takes one image already", "remove replace_input from the recipe")
    return inputs[name]


def _by_image(editor: Editor, start: ir.Value, count: int) -> tuple[set[ir.Value], list[ir.Node]]:
    """The values with one part for each image, and the layers that bring the images together."""
    batched, ends = {start}, list["ir.Node"]()
    for node in editor.nodes():
        if not batched & set(node.inputs):
            continue
        if _keeps_images_apart(editor, node, batched, count):
            batched |= set(node.outputs)
        else:
            ends.append(node)
    return batched, ends


def _keeps_images_apart(editor: Editor, node: ir.Node, batched: set[ir.Value], count: int) -> bool:
    shape = editor.shape(node.outputs[0])
    if shape[:1] != (count,):
        return False
    for value in node.inputs:
        constant = editor.array(value)
        computed = value is not None and value not in batched and constant is None
        if value is not None and computed and editor.shape(value)[:1] not in ((), (1,)):
            return False
        by_image = constant is not None and constant.ndim == len(shape) and constant.shape[0] != 1
        if by_image and node.op_type in _ELEMENTWISE:
            return False
    source = editor.shape(data_input(node))
    rank = len(source)
    if node.op_type in _SHAPES:
        return source[:1] == (count,)  # row-major: the images stay apart
    if node.op_type in _AXIS_OPS:
        default = {"Flatten": 1, "LpNormalization": -1, "Softmax": -1, "LogSoftmax": -1}.get(str(node.op_type), 0)
        return as_node(node).integer("axis", default) % max(rank, 1) != 0
    if node.op_type in _REDUCTIONS:
        reduction = read_or_none(editor, node, read_reduce)
        return reduction is not None and 0 not in reduction.axes
    if node.op_type == "Transpose":
        return read(editor, node, read_transpose).order[0] == 0
    if node.op_type == "Slice":
        cut = read_or_none(editor, node, read_slice)
        return cut is not None and (cut.starts[0], cut.steps[0]) == (0, 1)
    if node.op_type in ("Gemm", "MatMul"):
        return node.inputs[0] in batched and not as_node(node).integer("transA", 0) and node.inputs[1] not in batched
    if node.op_type == "Pad":
        return True  # the output's batch is that of the input: it is not padded
    return bool(node.op_type in _BY_IMAGE or (node.domain == "ai.nnkit" and node.op_type == "Normalize"))


def _outputs(editor: Editor, batched: set[ir.Value], ends: list[ir.Node]) -> list[ir.Value]:
    """The outputs that stay, and in place of those behind an end the values that the ends read."""
    gone: set[ir.Value] = set()
    for node in editor.nodes():
        if node in ends or gone & set(node.inputs):
            gone |= set(node.outputs)
    read = [value for node in ends for value in node.inputs if value is not None and value in batched]
    kept: list[ir.Value] = []
    for output in editor.graph.outputs:
        kept += read if output in gone else [output]
    return list(dict.fromkeys(kept))


def _shrink_reshapes(editor: Editor, batched: set[ir.Value], count: int) -> None:
    """Constant shapes of reshapes: their batch becomes 1."""
    for node in editor.nodes():
        if node.op_type != "Reshape" or not {data_input(node), node.outputs[0]} <= batched:
            continue
        target = editor.array(operand(node, 1))
        if target is None or not target.size or int(target[0]) not in (count, -1):
            continue
        rest = target[1:] if int(target[0]) == count else editor.shape(node.outputs[0])[1:]
        shape = editor.constant(f"{editor.layer(node)}.shape", np.array([1, *rest], np.int64))
        node.replace_input_with(1, shape)
