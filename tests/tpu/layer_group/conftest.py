"""Small graphs for the planner's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnkit.program import Window
from nnkit_tpu.layer_group.model import BufferRule, GroupGraph, GroupOp, GroupTensor, GroupWeight


class GraphBuilder:
    """Adds ops one by one; shapes follow from the ops."""

    def __init__(self, shape: tuple[int, int, int, int], dtype_bytes: int = 1) -> None:
        self.tensors = {"x": GroupTensor("x", shape, dtype_bytes)}
        self.weights: dict[str, GroupWeight] = {}
        self.ops: list[GroupOp] = []

    def add(self, name: str, kind: Any, inputs: str, shape: tuple[int, int, int, int], **fields: Any) -> str:
        dtype_bytes = fields.pop("dtype_bytes", 1)
        self.tensors[name] = GroupTensor(name, shape, dtype_bytes)
        self.ops.append(GroupOp(name, kind, tuple(inputs.split()), name, **fields))
        return name

    def conv(self, name: str, source: str, channels: int, kernel: int = 3, stride: int = 1, **fields: Any) -> str:
        images, inputs, height, width = self.tensors[source].shape
        dilation, group = fields.pop("dilation", 1), fields.pop("group", 1)
        pad = fields.pop("pad", (kernel - 1) * dilation // 2)
        window = Window(kernel, kernel, stride, stride, dilation, dilation, pad, pad, pad, pad)
        out_h, out_w = window.output_hw(height, width)
        taps = inputs // group * kernel * kernel
        self.weights[f"{name}_w"] = GroupWeight(f"{name}_w", (1, channels, 1, taps + 16))
        return self.add(
            name,
            "conv",
            source,
            (images, channels, out_h, out_w),
            weights=(f"{name}_w",),
            window=window,
            group=group,
            buffer=BufferRule(per_output=fields.pop("buffer", 0)),
            **fields,
        )

    def pool(self, name: str, source: str, kernel: int, stride: int, kind: str = "max_pool", pad: int = 0) -> str:
        images, channels, height, width = self.tensors[source].shape
        window = Window(kernel, kernel, stride, stride, 1, 1, pad, pad, pad, pad)
        return self.add(name, kind, source, (images, channels, *window.output_hw(height, width)), window=window)

    def graph(self, *outputs: str) -> GroupGraph:
        names = outputs or (self.ops[-1].output,)
        return GroupGraph("net", self.tensors, self.weights, tuple(self.ops), ("x",), names)


@pytest.fixture(scope="session")
def builder() -> Callable[..., GraphBuilder]:
    """A maker of graphs: `builder((1, 3, 32, 32))`."""
    return GraphBuilder


@pytest.fixture
def branched() -> GroupGraph:
    """Convolutions with stride, dilation, a residual sum, a concatenation, pools, upsampling, and two outputs."""
    b = GraphBuilder((2, 3, 40, 24))
    b.conv("c1", "x", 16, stride=2)
    b.conv("c2", "c1", 16, buffer=4)
    b.add("sum", "binary", "c1 c2", b.tensors["c2"].shape, function="add")
    b.conv("dw", "sum", 16, group=16)
    b.conv("wide", "sum", 8, dilation=2)
    b.add("cat", "concat", "dw wide", (2, 24, 20, 12))
    b.pool("down", "cat", 2, 2)
    b.add("up", "upsample", "down", (2, 24, 20, 12), scale=(2.0, 2.0))
    b.add("act", "unary", "up", (2, 24, 20, 12))
    b.add("out", "binary", "act cat", (2, 24, 20, 12), function="mul")
    return b.graph("out", "down")
