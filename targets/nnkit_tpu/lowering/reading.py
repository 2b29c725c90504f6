"""What the TPU's ops ask of an ONNX node beside its meaning: computed inputs, float32 numbers, fields of every op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.window import SlidingWindow
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node, Shape
from nnkit.program import Window
from nnkit_tpu.program import FloatArray, TpuOp


@dataclass(frozen=True)
class Built:
    """The ops of one node. shapes: of the values that the network as imported does not have."""

    ops: tuple[TpuOp, ...]
    shapes: Mapping[str, Shape] = field(default_factory=dict)


def fields(graph: GraphView, node: Node, *inputs: str, output: str = "") -> dict[str, Any]:
    """Name, inputs, output, tags and origins of the op of a node. output: of a node with several.

    Raises Refused where an input is missing, or a constant.
    """
    for name in inputs:
        place = f"its input {node.inputs.index(name) + 1}"
        if not name:
            raise Refused(f"{place} is missing")
        if graph.constant(name) is not None:
            raise Refused(f"{place} is a constant; it must be computed from the network's input")
    output = output or node.output
    tags = graph.tags.of(output)
    return {
        "name": node.name,
        "inputs": inputs,
        "output": output,
        "tags": tuple(name for name, on in (("hp", tags.hp), ("cpu", tags.cpu)) if on),
        "origins": tags.origins,
    }


def not_lowered(node: Node) -> Refused:
    """Why an operator is not taken that has no lowering; whether the chip could compute it is another question."""
    remedy = {
        "If": "export the branch that is used alone",
        "Loop": "export the network with the loop unrolled",
        "Scan": "export the network with the loop unrolled",
    }.get(node.op_type, "")
    return Refused(f"nnkit does not lower {node.op_type} to the TPU yet", remedy)


def float32(array: NDArray[Any]) -> FloatArray:
    """A contiguous float32 copy."""
    return np.ascontiguousarray(array, dtype=np.float32)


def as_one_number(constant: FloatArray) -> FloatArray:
    """[1] where all numbers of an operand are equal, as the compiler has it; otherwise the constant as it is."""
    flat = constant.reshape(-1)
    return flat[:1] if np.all(flat == flat[0]) else constant


def window(sliding: SlidingWindow) -> Window:
    """The window with the padding that is stated, or that windows beyond it (ceil_mode) read."""
    pads = (max(pair) for pair in zip(sliding.pads, sliding.pads_read, strict=True))
    return Window(*sliding.kernel, *sliding.strides, *sliding.dilations, *pads)
