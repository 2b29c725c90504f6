"""The arithmetic of a float32 program: every layer as ONNX defines it.

A layer is a node of the restructured network, computed in float32 by ONNX Runtime, or by nnkit's own definition where
it is of `ai.nnkit`. The C runs in float32 too, its sums in another order; `nnkit_ansi_c.bounds` says by how much a
value may differ for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.subgraph import run_bytes
from nnkit.program import Array, Arrays, OpBase, Program, Tensors, Watch

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatLayer(OpBase):
    """One output of one node, in float32, or of the activation that its kernel takes in.

    op_type: of the node. graph: the nodes with their constants, as ONNX. shapes: of the inputs, with the batch axis;
    output_shape: likewise. multiplications: multiply-accumulates of one inference. bound: by how much a value may
    differ in the C, absolute.
    """

    kind: ClassVar[str] = "float"
    op_type: str
    graph: bytes
    shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    multiplications: int = 0
    bound: float = 0.0

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """The layer's output, float32."""
        shaped = [values.reshape(shape) for values, shape in zip(inputs, self.shapes, strict=True)]
        given = dict(zip(self.inputs, shaped, strict=True))
        values = run_bytes(self.graph, given, {self.output: self.output_shape})
        return np.asarray(values[self.output], np.float32).reshape(tensors[self.output].shape)

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One for each weight and place it is used at."""
        return self.multiplications

    def weight_bytes(self) -> int:
        """The node's float constants."""
        from onnx import TensorProto, load_model_from_string

        constants = load_model_from_string(self.graph).graph.initializer
        return sum(4 * prod(c.dims) for c in constants if c.data_type == TensorProto.FLOAT)


def network_of(program: Program) -> Model:
    """The network that the program's layers make up; shapes with the batch axis."""
    from onnx import TensorProto, helper, load_model_from_string

    layers = [op for op in program.ops if isinstance(op, FloatLayer)]
    protos: dict[tuple[str, ...], ModelProto] = {}
    for op in layers:
        proto = load_model_from_string(op.graph)
        protos.setdefault(tuple(proto.graph.node[-1].output), proto)
    # An input that no layer reads has no other shape than this.
    shapes = {name: (1, *program.tensors[name].shape) for name in program.inputs}
    shapes |= {op.output: op.output_shape for op in layers}
    for op in layers:
        shapes |= dict(zip(op.inputs, op.shapes, strict=True))

    def values(names: Sequence[str]) -> list[ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names]

    graph = helper.make_graph(
        [node for proto in protos.values() for node in proto.graph.node],
        program.name,
        values(program.inputs),
        values(program.outputs),
        list({tensor.name: tensor for proto in protos.values() for tensor in proto.graph.initializer}.values()),
        value_info=[
            *values([op.output for op in layers if op.output not in program.outputs]),
            *(inner for proto in protos.values() for inner in proto.graph.value_info),
        ],
    )
    first = next(iter(protos.values()))
    model = helper.make_model(graph, opset_imports=list(first.opset_import))
    model.ir_version = first.ir_version
    opset = next(each.version for each in first.opset_import if not each.domain)
    inputs = tuple(InputSpec(name, shapes[name]) for name in program.inputs)
    outputs = tuple(OutputSpec(name, shapes[name]) for name in program.outputs)
    return Model(model.SerializeToString(), LayerTags(), inputs, outputs, opset)


PROGRAM_CLASSES: tuple[type, ...] = (FloatLayer,)
