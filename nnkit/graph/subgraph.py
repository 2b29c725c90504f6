"""Some nodes of a network as a network of their own, and running it in float."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.view import GraphView, Node
from nnkit.reading import refuse_other_files


def subgraph(graph: GraphView, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> Model:
    """The nodes with the constants that they read, between `inputs` and `outputs`.

    Shapes are those of the whole network. Tags are not carried over.
    """
    from onnx import TensorProto, helper

    stored = graph.stored
    proto = stored.proto
    kept = [proto.graph.node[index] for index in sorted({node.index for node in nodes})]
    read = {name for node in kept for name in node.input}
    specs = [InputSpec(name, graph.shape(name)) for name in inputs]
    results = [OutputSpec(name, graph.shape(name)) for name in outputs]
    inner = {name for node in kept for name in node.output} - set(outputs)
    part = helper.make_graph(
        kept,
        proto.graph.name or "part",
        [helper.make_tensor_value_info(spec.name, TensorProto.FLOAT, spec.shape) for spec in specs],
        [helper.make_tensor_value_info(spec.name, TensorProto.FLOAT, spec.shape) for spec in results],
        [proto.graph.initializer[index] for index in _places(stored.initializers, read)],
        value_info=[proto.graph.value_info[index] for index in _places(stored.values, inner)],
    )
    model = helper.make_model(part, opset_imports=list(proto.opset_import))
    model.ir_version = proto.ir_version
    return Model(model.SerializeToString(), LayerTags(), tuple(specs), tuple(results), graph.model.opset)


def _places(indices: Mapping[str, int], names: Iterable[str]) -> list[int]:
    """Where those of the names that a list has lie in it, in its order."""
    return sorted(indices[name] for name in names if name in indices)


def run_bytes(
    onnx_bytes: bytes, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[np.float32]]:
    """Run a stored subgraph in float32; arrays with the batch axis. outputs: shapes by name."""
    shapes = tuple((name, tuple(array.shape)) for name, array in inputs.items())
    session = _session(onnx_bytes, shapes, tuple(outputs.items()))
    return session.run(inputs)


@lru_cache(maxsize=512)
def _session(
    onnx_bytes: bytes,
    inputs: tuple[tuple[str, tuple[int, ...]], ...],
    outputs: tuple[tuple[str, tuple[int, ...]], ...],
) -> FloatSession:
    """A session depends on its arguments alone, and opening one takes longer than running a layer."""
    refuse_other_files(onnx_bytes)
    model = Model(
        onnx_bytes,
        LayerTags(),
        tuple(InputSpec(name, shape) for name, shape in inputs),
        tuple(OutputSpec(name, shape) for name, shape in outputs),
        0,
    )
    return FloatSession(model)
