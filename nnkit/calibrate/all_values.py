"""Running a network in float with the values that depend on an input fetched, for observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnkit.calibrate.derived import Derived, derived_values
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
    derived: values that are not fetched, also such as are no floating-point ones.

    Raises:
        ModelError: ONNX Runtime refuses the network.
    """

    def __init__(self, model: Model) -> None:
        proto = model.proto()
        computed = activation_values(proto)
        derived = derived_values(proto.graph, computed)
        # What is no output of the session need not be kept until its run ends.
        self._session = FloatSession(model, [name for name in computed if name not in derived])
        types = self._session.computed_types()
        floats = {name for name in computed if name not in derived and types.get(name, "tensor(float)") in _FLOATS}
        self.names = tuple(name for name in computed if derived.root(name) in floats)
        self.derived: Derived = derived
        self._fetched = tuple(name for name in self.names if name in floats)

    def run(self, inputs: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
        """The values of one sample by name, but for derived ones, in the order of `names`; any shape.

        Raises:
            ModelError: the network fails on this sample.
        """
        return self._session.run(inputs, self._fetched)


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
