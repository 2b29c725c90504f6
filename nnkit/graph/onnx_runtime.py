"""The float reference: a Model in ONNX Runtime, any value of it at hand.

Graph optimisations are off unless asked for. They reorder sums (measured on a SqueezeNet: outputs move by 3e-6), so
that a value would depend on which others are fetched. Off, each value is what the graph says, at twice the time. One
thread, for results that do not depend on the number of cores.

Operators of the domain `ai.nnkit` run in numpy, between the pieces that ONNX Runtime runs (`split_session`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops import has_custom_nodes
from nnkit.errors import InternalError, ModelError, NnkitError, UsageError
from nnkit.graph.model import Model
from nnkit.graph.split_session import SplitSession

if TYPE_CHECKING:
    import onnx

_ZERO = "nnkit.zero"
_BEYOND_TABLE = "indices element out of data bounds"  # of ONNX Runtime's Gather
_DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


class FloatSession:
    """Runs a Model in float32.

    fetch: values that `run` returns by default, inner ones too; the network's outputs where it is None.
    threads: inside an operator; more than one may change the order of sums.
    optimized: twice as fast, where the last bits do not matter.
    feed_weights: large weights are fed on every run instead of being written into the session, which opens in a
        fifth of the time, for networks that run once or twice. ONNX Runtime then prepares no weights beforehand, so
        a Gemm may add up in another order.

    Raises:
        InternalError: `fetch` names a value that the model does not have.
        ModelError: ONNX Runtime refuses the model.
    """

    def __init__(
        self,
        model: Model,
        fetch: Iterable[str] | None = None,
        *,
        threads: int = 1,
        optimized: bool = False,
        feed_weights: bool = False,
    ) -> None:
        self._model = model
        self._threads = threads
        self._optimized = optimized
        self._feed_weights = feed_weights
        self._weights: dict[str, NDArray[np.float32]] = {}  # those that are fed
        self._outputs = tuple(output.name for output in model.outputs)
        self._default = self._outputs if fetch is None else tuple(dict.fromkeys(fetch))
        self._constants: dict[str, NDArray[Any]] = {}
        self._exposed: tuple[str, ...] = ()
        self._session: Any = None
        self._open(self._default)

    def run(self, inputs: Mapping[str, NDArray[Any]], fetch: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """The fetched values of one sample by name, shapes as in the graph (batch included).

        inputs: every network input by name, of its shape; converted to float32.
        fetch: other values than the session's own. Inputs and constants may be fetched too.

        Raises:
            UsageError: an input is missing, unknown, or of another shape.
            InternalError: `fetch` names a value that the model does not have.
            ModelError: the network fails on this sample.
        """
        return self._run(inputs, fetch, lambda names, feeds: self._session.run(names, feeds))

    def reader(self) -> FloatReader:
        """For threads that run the session side by side: one for each."""
        return FloatReader(self)

    def _run(
        self,
        inputs: Mapping[str, NDArray[Any]],
        fetch: Sequence[str] | None,
        compute: Callable[[list[str], dict[str, NDArray[np.float32]]], list[NDArray[Any]]],
    ) -> dict[str, NDArray[Any]]:
        wanted = self._default if fetch is None else tuple(dict.fromkeys(fetch))
        if fetch is not None:
            self._open(wanted)
        feeds = self._feeds(inputs)
        computed = [name for name in wanted if name not in feeds and name not in self._constants]
        try:
            results = compute(computed, feeds | self._weights) if computed else []
        except NnkitError:
            raise
        except Exception as error:  # its exception types are not public
            raise _refused(error) from error
        values = dict(zip(computed, results, strict=True)) | feeds | self._constants
        return {name: values[name] for name in wanted}

    def computed_types(self) -> dict[str, str]:
        """Type of every value that the session computes, as ONNX Runtime writes it: `tensor(float)`."""
        return {output.name: output.type for output in self._session.get_outputs()}

    def computed_shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Shape of every value that the session computes; None where a size depends on the sample."""
        return {
            output.name: tuple(size if isinstance(size, int) else None for size in output.shape)
            for output in self._session.get_outputs()
        }

    def _feeds(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
        known = {spec.name: spec.shape for spec in self._model.inputs}
        for name in inputs:
            if name not in known:
                raise UsageError(f"the network has no input '{name}'", remedy=f"its inputs are: {', '.join(known)}")
        feeds = {}
        for name, shape in known.items():
            if name not in inputs:
                raise UsageError(f"no values for input '{name}'", remedy=f"give an array of shape {list(shape)}")
            array = np.asarray(inputs[name], np.float32, order="C")  # a scalar keeps its rank
            if array.shape != shape:
                raise UsageError(
                    f"input '{name}' has shape {list(array.shape)}", remedy=f"the network takes {list(shape)}"
                )
            feeds[name] = array
        return feeds

    def _open(self, wanted: Iterable[str]) -> None:
        """A session in which every one of `wanted` is an output; the one at hand where it will do."""
        if self._session is not None and set(wanted) <= set(self._exposed) | set(self._constants):
            return
        from onnx import numpy_helper

        proto = self._model.proto()
        fed = {spec.name for spec in self._model.inputs}
        constants = {tensor.name: tensor for tensor in proto.graph.initializer}
        produced = {name for node in proto.graph.node for name in node.output if name}
        for name in wanted:
            if name in constants:
                self._constants[name] = numpy_helper.to_array(constants[name])
            elif name not in produced and name not in fed:
                raise InternalError("the float network has no such value", where=name)
        inner = [n for n in dict.fromkeys((*self._exposed, *wanted)) if n in produced and n not in self._outputs]
        for name in inner:
            proto.graph.output.add(name=name)
        if self._optimized:
            _relus_as_max(proto.graph)
        if has_custom_nodes(proto):
            self._session = SplitSession(proto, self._session_of)
        else:
            if self._feed_weights:
                proto = self._without_weights(proto)
            self._session = self._session_of(proto.SerializeToString())
        self._exposed = (*fed, *self._outputs, *inner)

    def _without_weights(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """The network with its large weights as inputs; what they are fed is kept. `proto` loses them."""
        from nnkit.graph.weights_aside import take_weights, weight_arrays, with_weights_as_inputs

        weights = take_weights(proto.graph)
        self._weights = weight_arrays(proto.graph, weights)
        return with_weights_as_inputs(proto, weights)

    def _session_of(self, model_bytes: bytes) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if self._optimized else levels.ORT_DISABLE_ALL
        if self._feed_weights:  # memory that is kept for a third run would never be used
            options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        if self._optimized:  # measured on a detector: each of the two saves a tenth of the memory
            options.enable_mem_pattern = False
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        # It moves QuantizeLinear past a Reshape with another type than the values have, and fuses others into integer
        # kernels of its own: as written, they are the float reference of a network that is quantised already.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        options.log_severity_level = 4  # its errors come as exceptions; its warnings are not for our users
        try:
            return onnxruntime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exception types are not public
            raise _refused(error) from error


class FloatReader:
    """`FloatSession.run` for one thread, into buffers that are kept from one sample to the next.

    The arrays that `run` gives hold until the next `run`. To fetch 13 MB anew takes a fifth of a network's time, most
    of it for memory pages that the system gives and takes back. Where sizes depend on the sample, it is done all the
    same.
    """

    def __init__(self, session: FloatSession) -> None:
        self._session = session
        self._buffers: dict[str, NDArray[Any]] | None = None
        self._binding: Any = None

    def run(self, inputs: Mapping[str, NDArray[Any]], fetch: Sequence[str]) -> dict[str, NDArray[Any]]:
        """See `FloatSession.run`; what is fetched is the same each time, and among the session's own values."""
        return self._session._run(inputs, fetch, self._computed)

    def _computed(self, names: list[str], feeds: dict[str, NDArray[np.float32]]) -> list[NDArray[Any]]:
        if self._buffers is None:
            self._buffers = self._bound(names)
        if self._buffers:
            for name, array in feeds.items():
                self._binding.bind_cpu_input(name, array)
            try:
                self._session._session.run_with_iobinding(self._binding)
                return [self._buffers[name] for name in names]
            except Exception:  # a size that the graph states wrongly, or what fails below as well
                self._buffers = {}
        results: list[NDArray[Any]] = self._session._session.run(names, feeds)
        return results

    def _bound(self, names: list[str]) -> dict[str, NDArray[Any]]:
        """Buffers that the session will write to; none where sizes are not known."""
        import onnxruntime

        session, shapes, types = (
            self._session._session,
            self._session.computed_shapes(),
            self._session.computed_types(),
        )
        if isinstance(session, SplitSession) or any(None in shapes[n] or types[n] not in _DTYPES for n in names):
            return {}
        buffers = {name: np.empty(tuple(size or 0 for size in shapes[name]), _DTYPES[types[name]]) for name in names}
        self._binding = session.io_binding()
        for name, buffer in buffers.items():
            self._binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(buffer))
        return buffers


def _relus_as_max(graph: onnx.GraphProto) -> None:
    """Relu(x) as Max(x, 0), in place, where the numbers are float32.

    ONNX Runtime's optimised convolutions have a layout of their own, which Relu keeps and Max does not know. Without
    this, fetched values are all put into the graph's layout at the end of a run, and are there twice until then
    (measured on a detector: 13 MB in each thread, and no time).
    """
    from onnx import TensorProto, numpy_helper

    types = {tensor.data_type for tensor in graph.initializer} | {i.type.tensor_type.elem_type for i in graph.input}
    others = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
    if types & others or any(node.op_type in ("Cast", "CastLike") for node in graph.node):
        return
    relus = [node for node in graph.node if node.op_type == "Relu" and node.domain in ("", "ai.onnx")]
    for node in relus:
        node.op_type = "Max"
        node.input.append(_ZERO)
    if relus:
        graph.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), _ZERO))


def _refused(error: Exception) -> ModelError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ids = (
        "indices that the network computes may lie beyond the table: make them an input of integers of their own "
        "(token ids), which nothing but the Gather reads"
    )
    return ModelError(
        f"ONNX Runtime cannot run the network: {(lines or [type(error).__name__])[0][:300]}",
        remedy=ids if _BEYOND_TABLE in str(error) else "check the model with another ONNX tool, or export it again",
    )
