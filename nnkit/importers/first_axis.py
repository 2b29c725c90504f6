"""What the first axis of an input is, where it is not one image: told by the layers that read the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx

_RECURRENT = ("RNN", "GRU", "LSTM")
_OF_IMAGES = (
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "BatchNormalization",
    "InstanceNormalization",
    "DepthToSpace",
    "SpaceToDepth",
    "Flatten",
    "PRelu",
)
_PARTS = ("Slice", "Split", "Gather", "Identity", "Cast")
"""Operators behind which a part of a value still has its axes."""


def not_one_image(graph: onnx.GraphProto, name: str, shape: Sequence[int | str], where: str) -> ModelError:
    """The error of an input whose first axis is fixed to another number than 1.

    shape: as the file has it, open dimensions by name.
    """
    told = f"input '{name}' of shape [{', '.join(str(size or '?') for size in shape)}]"
    with_one = ", ".join(["1", *(str(size or "?") for size in shape)])
    if len(shape) == 1:
        reason = f"{told} has no axis for images, of which a deployed network takes one at a time"
        remedy = f"export the network with one in front: [{with_one}]"
    elif _reads(graph, name, (5, 6)):
        reason = f"{told} is the first state of {shape[0]} layers or directions; one at a time can be taken"
        remedy = "export each state as an input of its own, of shape [1, 1, units]"
    elif _reads(graph, name, (0,)):
        turned = ", ".join(str(size or "?") for size in ("1", shape[0], *shape[2:]))
        reason = f"{told} has the time first ({shape[0]} steps); nnkit takes the batch first, of 1"
        remedy = f"export the network with [{turned}] (`batch_first=True` in PyTorch)"
    elif len(shape) in (2, 4) or _reads_images(graph, name):
        reason = f"input '{name}' has batch {shape[0]}; a deployed network takes one input at a time"
        remedy = "export the network with batch 1 or an open batch, or add replace_input to restructure"
    else:
        reason = (
            f"{told} begins with an axis of {shape[0]}; nnkit takes that as images, of which there is one at a time"
        )
        remedy = f"export the network with an axis of 1 in front: [{with_one}]; where it is a batch, with batch 1"
    return ModelError(reason, where=where, remedy=remedy)


def _reads_images(graph: onnx.GraphProto, name: str) -> bool:
    """Whether a layer reads the value whose first axis is that of images in ONNX."""
    return any(node.op_type in _OF_IMAGES and node.input[0] == name for node in graph.node)


def _reads(graph: onnx.GraphProto, name: str, positions: Sequence[int]) -> bool:
    """Whether a recurrent layer of the time-major layout reads a value, or a part of it, at one of these inputs."""
    values = {name}
    for node in graph.node:
        if node.op_type in _PARTS and node.input[0] in values:
            values.update(node.output)
        elif _is_time_major(node):
            read = {node.input[each] for each in positions if each < len(node.input)}
            if read & values:
                return True
    return False


def _is_time_major(node: onnx.NodeProto) -> bool:
    """Whether it is a recurrent layer that takes the steps first, as ONNX's have by default."""
    return node.op_type in _RECURRENT and not any(each.name == "layout" and each.i for each in node.attribute)
