"""Running a network in float with the values that depend on an input fetched, for observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
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
    """A model in ONNX Runtime that gives all its activations, graph optimisations on: how large values get does not
    depend on their last bits.

    names: of the floating-point values that depend on an input: the inputs, then the others in the graph's order.
    derived: values that are not fetched, also such as are no floating-point ones.
    numbers: of a sample that are fetched (a size that depends on the sample taken for 1).

    Raises:
        ModelError: ONNX Runtime refuses the network.
    """

    def __init__(self, model: Model) -> None:
        proto = model.proto()
        computed = activation_values(proto)
        derived = derived_values(proto.graph, computed)
        # What is no output of the session need not be kept until its run ends.
        fetched = [name for name in computed if name not in derived]
        self._session = FloatSession(model, fetched, optimized=True)
        types = self._session.computed_types()
        floats = {name for name in computed if name not in derived and types.get(name, "tensor(float)") in _FLOATS}
        self.names = tuple(name for name in computed if derived.root(name) in floats)
        self.derived: Derived = derived
        self._fetched = tuple(name for name in self.names if name in floats)
        shapes = self._session.computed_shapes() | {spec.name: spec.shape for spec in model.inputs}
        self.numbers = sum(prod(size or 1 for size in shapes[name]) for name in self._fetched)

    def reader(self) -> Callable[[Mapping[str, NDArray[np.float32]]], dict[str, NDArray[Any]]]:
        """What gives the values of one sample by name, but for derived ones, in the order of `names`; any shape.

        They hold until it is called again. Threads may have one each, and use them at the same time. It raises
        ModelError where the network fails on a sample.
        """
        reader = self._session.reader()
        return lambda inputs: reader.run(inputs, self._fetched)


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
