"""Changing the weights and biases of a network's layers, with all else as it is, and names of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import LayerTags, Model

Array = NDArray[np.float64]


class WeightsEdit:
    """A copy of a model. Nodes are named by their first output."""

    def __init__(self, model: Model) -> None:
        self._source = model
        self._proto = model.proto()
        graph = self._proto.graph
        self._nodes = {node.output[0]: node for node in graph.node}
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._uses = Counter(name for node in graph.node for name in node.input)

    def owns(self, node: str, index: int) -> bool:
        """Whether an input of a node is a constant that nothing else reads."""
        names = self._nodes[node].input
        return index < len(names) and names[index] in self._tensors and self._uses[names[index]] == 1

    def has(self, node: str, index: int) -> bool:
        """Whether a node has such an input."""
        names = self._nodes[node].input
        return index < len(names) and bool(names[index])

    def constant(self, node: str, index: int) -> Array:
        """An input of a node that it owns."""
        from onnx import numpy_helper

        return numpy_helper.to_array(self._tensors[self._nodes[node].input[index]]).astype(np.float64)

    def set_constant(self, node: str, index: int, values: NDArray[Any]) -> None:
        """Replace an input of a node that it owns."""
        from onnx import numpy_helper

        name = self._nodes[node].input[index]
        tensor = self._tensors[name]
        tensor.CopyFrom(numpy_helper.from_array(values.astype(numpy_helper.to_array(tensor).dtype), name))

    def add_bias(self, node: str, values: NDArray[Any]) -> None:
        """Give a node that has two inputs a third, float32."""
        from onnx import numpy_helper

        name = f"{node}.bias"
        while name in self._tensors or name in self._nodes:
            name += "_"
        tensor = numpy_helper.from_array(values.astype(np.float32), name)
        self._proto.graph.initializer.append(tensor)
        self._tensors[name] = self._proto.graph.initializer[-1]
        self._uses[name] = 1
        del self._nodes[node].input[2:]
        self._nodes[node].input.append(name)

    def rename(self, names: Mapping[str, str]) -> None:
        """Give values inside the network other names. Layers keep theirs, which may come of a value."""
        graph = self._proto.graph
        for node in graph.node:
            node.name = node.name or node.output[0]
            for side in (node.input, node.output):
                side[:] = [names.get(name, name) for name in side]
        for value in graph.value_info:
            value.name = names.get(value.name, value.name)
        self._nodes = {node.output[0]: node for node in graph.node}
        tags = {names.get(name, name): each for name, each in self._source.tags.values.items()}
        self._source = replace(self._source, tags=LayerTags(tags))

    def model(self) -> Model:
        """The changed model."""
        return replace(self._source, onnx_bytes=self._proto.SerializeToString())
