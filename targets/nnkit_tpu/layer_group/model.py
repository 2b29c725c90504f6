"""What the planner knows of a network: ops in order over four-dimensional tensors, and the weights they load.

Nothing here is tied to where the graph comes from: `from_program.py` makes it from our own ops, `from_lowered.py`
from the compiler's lowered program, with the weights as the compiler has packed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.errors import InternalError
from nnkit.program import Window

Shape: TypeAlias = tuple[int, int, int, int]
Kind: TypeAlias = Literal[
    "conv", "deconv", "max_pool", "average_pool", "binary", "unary", "concat", "upsample", "interp", "pad", "slice",
    "reshape", "permute", "matmul", "softmax", "reduce", "scale", "other",
]  # fmt: skip

ON_THE_HOST = "it runs on the host processor"
MOST_AXES = 4  # of a slice in local memory
OF_TOO_MANY_AXES = "slices of more than four axes work on global memory"
ROWS_RANK = 3  # axes of both sides of a matrix product that the BM chips have in local memory
NOT_OF_ROWS = "only products of rows [images, rows, values] work in local memory"


@dataclass(frozen=True)
class GroupTensor:
    """An activation: [n, c, h, w] and the bytes of one value."""

    name: str
    shape: Shape
    dtype_bytes: int = 1

    @property
    def size_bytes(self) -> int:
        """Bytes in global memory."""
        images, channels, height, width = self.shape
        return images * channels * height * width * self.dtype_bytes


@dataclass(frozen=True)
class GroupWeight:
    """Weights as they lie packed in local memory: [n, c, h, w] and the bytes of one value.

    aligned: every channel begins at a whole vector, as activations do; so it is with the right side of a product.
    """

    name: str
    shape: Shape
    dtype_bytes: int = 1
    aligned: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes in global memory."""
        images, channels, height, width = self.shape
        return images * channels * height * width * self.dtype_bytes


@dataclass(frozen=True)
class BufferRule:
    """Scratch of an op per lane: `per_output` times its output's bytes, `per_input` times its input's, `fixed`."""

    per_output: float = 0.0
    per_input: float = 0.0
    fixed: int = 0

    def size_bytes(self, output_bytes: int, input_bytes: int) -> int:
        """Bytes per lane for a slice whose output and first input take these bytes per lane."""
        return int(self.per_output * output_bytes + self.per_input * input_bytes) + self.fixed


@dataclass(frozen=True)
class GroupOp:
    """One op, one output.

    window: of convolutions and pools. group: of convolutions. begins: of `pad` the rows and columns put before
    (h, w), of `slice` the first channel, row and column (c, h, w) taken. steps: of `slice` (c, h, w).
    scale: of `upsample` and `interp`, output size over input size (h, w). axis: of concat, softmax and reduce.
    function: what a `binary`, `unary` or `interp` computes. order: of permute.
    not_local: why the op cannot work in local memory; empty: it can.
    macs: multiply-accumulates of a matrix product.
    """

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    output: str
    weights: tuple[str, ...] = ()
    window: Window | None = None
    group: int = 1
    function: str = ""
    axis: int = 1
    begins: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    scale: tuple[float, float] = (1.0, 1.0)
    order: tuple[int, ...] = ()
    buffer: BufferRule = BufferRule()
    not_local: str = ""
    macs: int = 0

    @property
    def layer(self) -> str:
        """The network's layer that it is of: its name, but for what tells ops of one layer apart (`told_apart`)."""
        return self.name.removesuffix(f":{self.output}")


def told_apart(name: str, output: str) -> str:
    """The name of a further op of a layer that has several, such as the slices of a Split."""
    return f"{name}:{output}"


@dataclass(frozen=True, eq=False)
class GroupGraph:
    """Ops in execution order. inputs and outputs: tensors in global memory before and after."""

    name: str
    tensors: Mapping[str, GroupTensor]
    weights: Mapping[str, GroupWeight]
    ops: tuple[GroupOp, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raises InternalError for an op that reads what is not there yet, or a tensor that is written twice."""
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        known = set(self.inputs)
        for op in self.ops:
            missing = [name for name in op.inputs if name not in known] + [
                w for w in op.weights if w not in self.weights
            ]
            if missing:
                raise InternalError(f"the op reads {missing[0]!r}, which nothing wrote before", where=op.name)
            if op.output in known:
                raise InternalError(f"{op.output!r} is written twice", where=op.name)
            known.add(op.output)

    @cached_property
    def readers(self) -> Mapping[str, tuple[GroupOp, ...]]:
        """By tensor, the ops that read it, in order."""
        readers: dict[str, list[GroupOp]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                readers.setdefault(name, []).append(op)
        return MappingProxyType({name: tuple(ops) for name, ops in readers.items()})

    def group_inputs(self, ops: Sequence[GroupOp]) -> tuple[str, ...]:
        """Tensors that `ops` read and do not write, in the order of their first use."""
        written = {op.output for op in ops}
        return tuple(dict.fromkeys(name for op in ops for name in op.inputs if name not in written))

    def group_outputs(self, ops: Sequence[GroupOp]) -> tuple[str, ...]:
        """Tensors that `ops` write and others read, or the graph gives out."""
        members = {op.name for op in ops}
        return tuple(
            op.output
            for op in ops
            if op.output in self.outputs
            or any(reader.name not in members for reader in self.readers.get(op.output, ()))
        )

    def reordered(self, names: Sequence[str]) -> GroupGraph:
        """The same graph with its ops in the order of `names`, which must be topological."""
        by_name = {op.name: op for op in self.ops}
        ops = tuple(by_name[name] for name in names)
        return GroupGraph(self.name, self.tensors, self.weights, ops, self.inputs, self.outputs)
