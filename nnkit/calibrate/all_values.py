"""Running a network in float with every value that depends on an input fetched, for observers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnkit.errors import ModelError
from nnkit.graph.model import Model

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import NDArray

_FLOATS = frozenset({"tensor(float)", "tensor(double)", "tensor(float16)"})


class AllValues:
    """ONNX Runtime on a model, graph optimisations off, so that each value is the one the graph names.

    names: of the floating-point values that depend on an input: the inputs, then the others in the graph's order.

    Raises:
        ModelError: ONNX Runtime refuses the network.
    """

    def __init__(self, model: Model) -> None:
        import onnxruntime

        proto = model.proto()
        inputs = {spec.name for spec in model.inputs}
        _set_outputs(proto, [name for name in activation_values(proto) if name not in inputs])
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exception types are not public
            raise _refused(error) from error
        self._outputs = [output.name for output in self._session.get_outputs() if output.type in _FLOATS]
        self.names = (*(spec.name for spec in model.inputs), *self._outputs)

    def run(self, inputs: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
        """The values of one sample by name, in the order of `names`; any shape.

        Raises:
            ModelError: the network fails on this sample.
        """
        try:
            outputs = self._session.run(self._outputs, dict(inputs))
        except Exception as error:
            raise _refused(error) from error
        return {**inputs, **dict(zip(self._outputs, outputs, strict=True))}


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


def _set_outputs(proto: onnx.ModelProto, names: list[str]) -> None:
    import onnx

    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)


def _refused(error: Exception) -> ModelError:
    lines = str(error).strip().splitlines()
    return ModelError(
        f"ONNX Runtime cannot run the network: {lines[0] if lines else type(error).__name__}",
        remedy="check the model file and the shapes of its inputs",
    )
