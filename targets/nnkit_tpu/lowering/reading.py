"""Reading of ONNX nodes for the TPU's ops: operands, windows, constants; and the refusal of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import ValueTags
from nnkit.graph.padding import explicit_pads
from nnkit.program.ops import Window
from nnkit.quantize.graph_view import GraphView, NodeView
from nnkit_tpu.program import FloatArray


class Unsupported(Exception):
    """A node that the TPU's ops cannot express; the message is the reason."""


@dataclass(frozen=True, eq=False)
class Node:
    """One ONNX node with what is known around it. output: the one of its outputs that is asked for."""

    view: GraphView
    node: NodeView
    output: str

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that all ops share, without the inputs."""
        tags: ValueTags = self.view.tags.of(self.output)
        return {
            "name": self.node.name,
            "output": self.output,
            "tags": tuple(name for name, on in (("hp", tags.hp), ("cpu", tags.cpu)) if on),
            "origins": tags.origins,
        }

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the output, batch included."""
        return self.view.shape(self.output)

    def given(self, index: int) -> bool:
        """Whether input `index` is there."""
        return index < len(self.node.inputs) and self.node.inputs[index] != ""

    def computed(self, index: int = 0) -> str:
        """Name of an input that is computed at run time. Raises Unsupported for an absent or constant one."""
        if not self.given(index):
            raise Unsupported(f"its input {index + 1} is missing")
        if self.view.constant(self.node.inputs[index]) is not None:
            raise Unsupported(f"its input {index + 1} is a constant; it must be computed from the network's input")
        return self.node.inputs[index]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of an input, batch included."""
        constant = self.constant(index)
        return self.view.shape(self.node.inputs[index]) if constant is None else constant.shape

    def constant(self, index: int) -> NDArray[Any] | None:
        """A constant input, None where it is absent or computed."""
        return self.view.constant(self.node.inputs[index]) if self.given(index) else None

    def required_constant(self, index: int, what: str) -> NDArray[Any]:
        """A constant input. Raises Unsupported where it is absent or computed."""
        found = self.constant(index)
        if found is None:
            raise Unsupported(f"its {what} must be a constant")
        return found

    def parameter(self, index: int, attribute: str) -> tuple[int, ...] | None:
        """Integers that newer opsets have as a constant input and older ones as an attribute."""
        if self.given(index):
            return tuple(int(v) for v in self.required_constant(index, attribute).reshape(-1))
        values = self.node.attributes.get(attribute)
        return None if values is None else tuple(int(v) for v in values)

    def number(self, attribute: str, default: float) -> float:
        """A float attribute."""
        return float(self.node.attributes.get(attribute, default))

    def integer(self, attribute: str, default: int) -> int:
        """An integer attribute."""
        return int(self.node.attributes.get(attribute, default))

    def axis(self, value: int, rank: int | None = None) -> int:
        """An axis counted from the front."""
        return value % (len(self.shape()) if rank is None else rank)


def float32(array: NDArray[Any]) -> FloatArray:
    """A contiguous float32 copy."""
    return np.ascontiguousarray(array, dtype=np.float32)


def require_image(shape: Sequence[int]) -> None:
    """Raises Unsupported for anything that is not [N, C, H, W]."""
    if len(shape) != 4:
        raise Unsupported(f"its input has {len(shape)} dimensions, 4 are needed (N, C, H, W)")


def window_of(node: Node, kernel: Sequence[int], *, pads: Sequence[int] | None = None) -> Window:
    """The window of a Conv or pool with the padding as ONNX has it; `auto_pad` is resolved.

    kernel: (height, width). pads: (top, left, bottom, right) instead of the attribute's.
    """
    require_image(node.shape())
    strides = node.node.ints("strides", (1, 1))
    dilations = node.node.ints("dilations", (1, 1))
    if pads is None:
        pads = explicit_pads(
            node.node.text("auto_pad", "NOTSET"),
            node.node.ints("pads", (0, 0, 0, 0)),
            kernel=kernel,
            strides=strides,
            dilations=dilations,
            input_hw=node.shape()[2:],
            output_hw=node.output_shape[2:],
        )
    return Window(*kernel, *strides, *dilations, *pads)
