"""Running a network in float with every value that depends on an input fetched, for observers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from nnkit.graph.model import Model
from nnkit.graph.onnx_runtime import FloatSession

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import NDArray

_FLOATS = frozenset({"tensor(float)", "tensor(double)", "tensor(float16)"})


class AllValues:
    """A model in ONNX Runtime that gives all its activations.

    names: of the floating-point values that depend on an input: the inputs, then the others in the graph's order.
    rectified: outputs of Relus by name, with the name of what they rectify.

    Raises:
        ModelError: ONNX Runtime refuses the network.
    """

    def __init__(self, model: Model) -> None:
        proto = model.proto()
        computed = activation_values(proto)
        self._session = FloatSession(model, computed)
        types = self._session.computed_types()
        self.names = tuple(name for name in computed if name not in types or types[name] in _FLOATS)
        known = set(self.names)
        self.rectified: Mapping[str, str] = {
            node.output[0]: node.input[0]
            for node in proto.graph.node
            if node.op_type == "Relu" and {node.output[0], node.input[0]} <= known
        }

    def run(
        self, inputs: Mapping[str, NDArray[np.float32]], without: Collection[str] = ()
    ) -> dict[str, NDArray[Any]]:
        """The values of one sample by name, in the order of `names`; any shape.

        without: names that are not fetched.

        Raises:
            ModelError: the network fails on this sample.
        """
        return self._session.run(inputs, [name for name in self.names if name not in without])


def activation_values(proto: onnx.ModelProto) -> list[str]:
    """Names of the values that depend on an input: the inputs, then nodes' outputs in the graph's order."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    names = [value.name for value in proto.graph.input if value.name not in constants]
    known = set(names)
    for node in proto.graph.node:
        if known.intersection(node.input):
            produced = [name for name in node.output if name]
            names.extend(produced)
            known.update(produced)
    return names
