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

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnkit.graph import Model
from nnkit.recipe.restructure import ReplaceInput
from nnkit.rewrite.edit import Edit, Edited, Expected, Sample, Values, copied
from nnkit.rewrite.surgery import Surgery

if TYPE_CHECKING:
    import onnx

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

_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceL1")
_AXIS_OPS = ("Concat", "Softmax", "LogSoftmax", "LpNormalization", "Split", "Flatten", "Gather", "ArgMax")
_SHAPES = ("Reshape", "Squeeze", "Unsqueeze")


def make(options: ReplaceInput, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("replace_input", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: ReplaceInput, where: str) -> Edited:
    surgery = Surgery(model, where)
    before = surgery.output_names
    joined = _batch_concat(surgery)
    if joined is not None:
        kept, count, start, row = _keep_one(surgery, joined, options.input)
        others = [name for name in joined.input if name != kept]
    else:
        kept, count = _batched_input(surgery, options.input)
        start, others, row = kept, [], 0
    batched, ends = _by_image(surgery, start, count)
    outputs = _outputs(surgery, before, batched, ends)
    _shrink(surgery, batched, count)
    if joined is not None:
        _bypass(surgery, joined, kept)
    else:
        _one_image(surgery, kept)
    surgery.set_outputs(outputs)

    def feeds(sample: Sample) -> Sample:
        return {name: array[:1] for name, array in sample.items() if name not in others}

    def expected(values: Values) -> Mapping[str, Expected]:
        return {
            name: copied(values[name][row * values[name].shape[0] // count :][: values[name].shape[0] // count])
            if name in batched
            else copied(values[name])
            for name in outputs
        }

    effect = f"one image at '{kept}' instead of {count}; the outputs are {', '.join(repr(name) for name in outputs)}"
    if ends:
        layers = ", ".join(repr(surgery.layer(node)) for node in ends)
        effect += f", because {layers} brings the images together"
    return Edited(surgery.finish(), (kept, *others), effect, tuple(outputs), expected, feeds)


def _batch_concat(surgery: Surgery) -> onnx.NodeProto | None:
    """The Concat along the batch whose inputs are network inputs."""
    inputs = set(surgery.input_names)
    for node in surgery.graph.node:
        if node.op_type == "Concat" and not node.domain and _attribute(node, "axis", 0) == 0:
            if inputs >= set(node.input):
                return cast("onnx.NodeProto", node)
            if len(surgery.shape(node.output[0])) == 4 and all(_one(surgery, name) for name in node.input):
                raise surgery.refused(
                    f"'{surgery.layer(node)}' concatenates images that earlier layers have changed",
                    "move what changes them (a flip, a normalisation) to the preprocessing of the inputs",
                )
    return None


def _one(surgery: Surgery, name: str) -> bool:
    return surgery.constant(name) is None and surgery.shape(name)[0] == 1


def _keep_one(surgery: Surgery, joined: Any, wanted: str | None) -> tuple[str, int, str, int]:
    """(the input that stays, how many images there were, the value that they made, which of them it was)."""
    kept = joined.input[0] if wanted is None else wanted
    if kept not in joined.input:
        raise surgery.refused(f"'{kept}' is not concatenated", f"name one of {', '.join(joined.input)}")
    for name in dict.fromkeys(joined.input):
        if len(surgery.readers(name)) > 1:
            raise surgery.refused(
                f"input '{name}' is read by other layers, too", "cut the network before them with keep_output"
            )
    return kept, len(joined.input), joined.output[0], list(joined.input).index(kept)


def _batched_input(surgery: Surgery, wanted: str | None) -> tuple[str, int]:
    names = surgery.input_names
    several = [name for name in names if surgery.shape(name)[:1] > (1,)]
    name = wanted or (several[0] if several else names[0])
    if name not in names:
        raise surgery.refused(f"the network has no input '{name}'", f"its inputs are: {', '.join(names)}")
    count = surgery.shape(name)[0]
    if count == 1:
        raise surgery.refused(f"input '{name}' takes one image already", "remove replace_input from the recipe")
    return name, count


def _by_image(surgery: Surgery, start: str, count: int) -> tuple[set[str], list[onnx.NodeProto]]:
    """The values with one part for each image, and the layers that bring the images together."""
    batched, ends = {start}, list[Any]()
    for node in surgery.graph.node:  # in topological order
        if not batched & set(node.input):
            continue
        if _keeps_images_apart(surgery, node, batched, count):
            batched |= set(node.output)
        else:
            ends.append(node)
    return batched, ends


def _keeps_images_apart(surgery: Surgery, node: Any, batched: set[str], count: int) -> bool:
    shape = surgery.shape(node.output[0])
    if shape[:1] != (count,):
        return False
    for name in node.input:
        constant = surgery.constant(name) if name else None
        computed = name and name not in batched and constant is None
        if computed and surgery.shape(name)[:1] not in ((), (1,)):
            return False
        elementwise = node.op_type in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean")
        if elementwise and constant is not None and constant.ndim == len(shape) and constant.shape[0] != 1:
            return False
    rank = len(surgery.shape(node.input[0]))
    if node.op_type in _SHAPES:
        return surgery.shape(node.input[0])[:1] == (count,)  # row-major: the images stay apart
    if node.op_type in _AXIS_OPS:
        default = {"Flatten": 1, "LpNormalization": -1, "Softmax": -1, "LogSoftmax": -1}.get(node.op_type, 0)
        return int(_attribute(node, "axis", default)) % max(rank, 1) != 0
    if node.op_type in _REDUCTIONS:
        return all(axis % rank != 0 for axis in _axes(surgery, node, rank))
    if node.op_type == "Transpose":
        return list(_attribute(node, "perm", range(rank)[::-1]))[:1] == [0]
    if node.op_type == "Slice":
        return all(axis % rank != 0 for axis in _slice_axes(surgery, node))
    if node.op_type in ("Gemm", "MatMul"):
        return node.input[0] in batched and not _attribute(node, "transA", 0) and node.input[1] not in batched
    if node.op_type == "Pad":
        return True  # the output's batch is that of the input: it is not padded
    return bool(node.op_type in _BY_IMAGE or (node.domain == "ai.nnkit" and node.op_type == "Normalize"))


def _attribute(node: Any, name: str, default: Any) -> Any:
    from onnx import helper

    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _axes(surgery: Surgery, node: Any, rank: int) -> Iterator[int]:
    given = surgery.constant(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    axes = given.reshape(-1).tolist() if given is not None else _attribute(node, "axes", None)
    yield from (int(axis) for axis in (range(rank) if axes is None else axes))


def _slice_axes(surgery: Surgery, node: Any) -> list[int]:
    axes = surgery.constant(node.input[3]) if len(node.input) > 3 else None
    starts = surgery.constant(node.input[1])
    count = 0 if starts is None else starts.size
    return [int(axis) for axis in axes.reshape(-1)] if axes is not None else list(range(count))


def _outputs(surgery: Surgery, before: list[str], batched: set[str], ends: list[Any]) -> list[str]:
    """The outputs that stay, and in place of those behind an end the values that the ends read."""
    gone: set[str] = set()
    for node in surgery.graph.node:
        if node in ends or gone & set(node.input):
            gone |= set(node.output)
    read = [name for node in ends for name in node.input if name in batched]
    found: list[str] = []
    for name in before:
        found += read if name in gone else [name]
    return list(dict.fromkeys(found))


def _shrink(surgery: Surgery, batched: set[str], count: int) -> None:
    """Constant shapes of reshapes: their batch becomes 1."""
    for node in surgery.graph.node:
        if node.op_type != "Reshape" or node.input[0] not in batched or node.output[0] not in batched:
            continue
        target = surgery.constant(node.input[1])
        if target is not None and target.size and int(target[0]) == count:
            changed = np.array([1, *target[1:]], np.int64)
            node.input[1] = surgery.add_constant(f"{surgery.layer(node)}.shape", changed)
        elif target is not None and target.size and int(target[0]) == -1:
            shape = surgery.shape(node.output[0])
            node.input[1] = surgery.add_constant(f"{surgery.layer(node)}.shape", np.array([1, *shape[1:]], np.int64))


def _bypass(surgery: Surgery, joined: Any, kept: str) -> None:
    for reader in surgery.readers(joined.output[0]):
        for index, name in enumerate(reader.input):
            if name == joined.output[0]:
                reader.input[index] = kept


def _one_image(surgery: Surgery, name: str) -> None:
    for info in surgery.graph.input:
        if info.name == name:
            info.type.tensor_type.shape.dim[0].dim_value = 1
