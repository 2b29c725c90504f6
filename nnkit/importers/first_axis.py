"""What the first axis of an input is, where it is not one image: the layers that read the input show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnkit.errors import ModelError
from nnkit.graph.read.recurrent import STATE_OPS

if TYPE_CHECKING:
    import onnx

_RECURRENT = ("RNN", "GRU", "LSTM")
_OF_IMAGES = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization",
    "InstanceNormalization", "DepthToSpace", "SpaceToDepth", "Flatten", "PRelu",
)  # fmt: skip
_PARTS = ("Slice", "Split", "Gather", "Identity", "Cast")
"""Operators behind which a part of a value still has its axes."""


def not_one_image(graph: onnx.GraphProto, name: str, shape: Sequence[int | str], where: str) -> ModelError:
    """The error of an input whose first axis is fixed to another number than 1.

    shape: as the file has it, open dimensions by name.
    """
    sides = [str(size or "?") for size in shape]
    what = f"input '{name}' of shape [{', '.join(sides)}]"
    with_one = f"[{', '.join(['1', *sides])}]"
    if len(shape) == 1:
        reason = f"{what} has no axis for images, of which a deployed network takes one at a time"
        remedy = f"export the network with one in front: {with_one}"
    elif layers := _readers(graph, name, (5, 6), STATE_OPS):
        first = f"'{layers[0].name}' ({layers[0].op_type}) begins with it"
        reason = (
            f"{what} is recurrent state, which the caller hands over from call to call: {first}"
            f"{f', and {len(layers) - 1} more' if len(layers) > 1 else ''}; nnkit takes inputs whose first axis is 1"
        )
        remedy = (
            f"give it and the output that follows it an axis of 1 in front: {with_one} (in PyTorch `{name}[0]` at "
            "the start and `[None]` at the end; for a file, the script in docs/operators.md#state-from-outside). "
            "Then the target named there takes it with `precision: float32`, where no other layer is refused"
        )
    elif _readers(graph, name, (0,), _PARTS):
        turned = ", ".join(["1", sides[0], *sides[2:]])
        reason = f"{what} has the time first ({shape[0]} steps); nnkit takes the batch first, of 1"
        remedy = f"export the network with [{turned}] (`batch_first=True` in PyTorch)"
    elif len(shape) in (2, 4) or _reads_images(graph, name):
        reason = f"input '{name}' has batch {shape[0]}; a deployed network takes one input at a time"
        remedy = "export the network with batch 1 or an open batch, or add replace_input to restructure"
    else:
        reason = (
            f"{what} begins with an axis of {shape[0]}; nnkit takes that as images, of which there is one at a time"
        )
        remedy = f"export the network with an axis of 1 in front: {with_one}; where it is a batch, with batch 1"
    return ModelError(reason, where=where, remedy=remedy)


def _reads_images(graph: onnx.GraphProto, name: str) -> bool:
    """Whether a layer reads the value whose first axis is that of images in ONNX."""
    return any(node.op_type in _OF_IMAGES and node.input[0] == name for node in graph.node)


def _readers(
    graph: onnx.GraphProto, name: str, positions: Sequence[int], through: Sequence[str]
) -> list[onnx.NodeProto]:
    """The recurrent layers of the time-major layout that read a value at one of these inputs, also what the operators
    `through` make of it."""
    values, readers = {name}, []
    for node in graph.node:
        if node.op_type in through and node.input[0] in values:
            values.update(node.output)
        elif _is_time_major(node) and values & {node.input[at] for at in positions if at < len(node.input)}:
            readers.append(node)
    return readers


def _is_time_major(node: onnx.NodeProto) -> bool:
    """Whether it is a recurrent layer that takes the steps first, as ONNX's have by default."""
    return node.op_type in _RECURRENT and not any(each.name == "layout" and each.i for each in node.attribute)
