"""Tensors of a model file: does each hold what it declares, and are its numbers fit for arithmetic?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnkit.errors import ModelError
from nnkit.reading import MAX_MODEL_BYTES
from nnkit.reading.onnx_file import walk

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import NDArray

_ARITHMETIC = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "PRelu", "Add", "Mul"])
_BEFORE_SOFTMAX = frozenset(["Add", "Reshape", "Squeeze", "Unsqueeze"])


def all_tensors(proto: Any) -> Iterator[onnx.TensorProto]:
    """Every TensorProto inside: initializers, attributes, sub-graphs, functions."""
    for message in walk(proto):
        if message.DESCRIPTOR.name == "TensorProto":
            yield message


def declared_bytes(tensor: onnx.TensorProto, where: str) -> int:
    """Bytes of `raw_data` that type and dimensions ask for.

    Raises:
        ModelError: unknown type, text, a negative dimension, or more than `MAX_MODEL_BYTES`.
    """
    bits = _bits_per_element().get(tensor.data_type)
    name = tensor.name or "(unnamed)"
    if bits is None:
        raise ModelError(
            f"tensor '{name}' has an element type ({tensor.data_type}) that is not a number",
            where=where,
            remedy="export the network with numeric tensors only",
        )
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(
            f"tensor '{name}' has a negative dimension: {list(tensor.dims)}", where=where, remedy="export it again"
        )
    size = (math.prod(int(dim) for dim in tensor.dims) * bits + 7) // 8
    if size >= MAX_MODEL_BYTES:
        raise ModelError(
            f"tensor '{name}' declares {size:,} bytes ({_shape(tensor)}); the limit is {MAX_MODEL_BYTES:,}",
            where=where,
            remedy="the file is damaged, or made for another kind of machine",
        )
    return size


def check_tensors(proto: Any, where: str) -> None:
    """Check that every tensor holds exactly the elements it declares. External data must be loaded by now.

    Raises:
        ModelError: it does not, or it is sparse; the message names the tensor.
    """
    for message in walk(proto):
        if message.DESCRIPTOR.name == "SparseTensorProto":
            raise ModelError(
                f"tensor '{message.values.name}' is sparse", where=where, remedy="export the weights as dense tensors"
            )
    for tensor in all_tensors(proto):
        declared = declared_bytes(tensor, where)
        held = _held_bytes(tensor)
        if held != declared:
            raise ModelError(
                f"tensor '{tensor.name or '(unnamed)'}' declares {declared:,} bytes ({_shape(tensor)}) "
                f"and holds {held:,}",
                where=where,
                remedy="the file is damaged: export the network again",
            )


def model_bytes(proto: Any) -> int:
    """About what the message takes: the data of all tensors and 64 bytes for each message inside.

    The exact count costs protobuf as much time as writing the model.
    """
    messages = sum(1 for _ in walk(proto))
    return 64 * messages + sum(max(0, _held_bytes(tensor)) for tensor in all_tensors(proto))


def check_numbers(graph: onnx.GraphProto, where: str) -> None:
    """Check the weights: no NaN anywhere, no infinity where a layer multiplies or adds. A mask that is added in front
    of a Softmax may hold -infinity.

    Raises:
        ModelError: naming the tensor and the layer.
    """
    import numpy as np

    readers = {name: node for node in graph.node if node.op_type in _ARITHMETIC for name in node.input}
    masks = _masks(graph)
    for tensor in graph.initializer:
        array = array_of(tensor, where)
        if array.dtype.kind != "f" or np.isfinite(array).all():
            continue
        reader = readers.get(tensor.name)
        if np.isnan(array).any():
            what = "NaN (not a number)"
        elif reader is not None and not (tensor.name in masks and not (array == np.inf).any()):
            what = "infinite numbers"
        else:
            continue
        of_layer = f", read by layer '{reader.name}'," if reader is not None else ""
        raise ModelError(
            f"tensor '{tensor.name}'{of_layer} holds {what}",
            where=where,
            remedy="check the training run, export again",
        )


def _masks(graph: onnx.GraphProto) -> set[str]:
    """The values that make up the input of a Softmax, by sums and changes of shape alone."""
    producers = {name: node for node in graph.node if node.op_type in _BEFORE_SOFTMAX for name in node.output}
    masks: set[str] = set()
    waiting = [node.input[0] for node in graph.node if node.op_type in ("Softmax", "LogSoftmax")]
    while waiting:
        producer = producers.get(waiting.pop())
        if producer is not None:
            fresh = set(producer.input) - masks
            masks |= fresh
            waiting += fresh
    return masks


def array_of(tensor: onnx.TensorProto, where: str) -> NDArray[np.generic]:
    """The tensor's values.

    Raises:
        ModelError: they cannot be read.
    """
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelError(
            f"tensor '{tensor.name}' cannot be read: {error}", where=where, remedy="export the network again"
        ) from error


def _shape(tensor: onnx.TensorProto) -> str:
    return " x ".join(str(dim) for dim in tensor.dims) or "one value"


def _held_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of the elements held, as they would be in raw_data; -1 where two fields hold data."""
    import onnx

    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    bits = _bits_per_element()[tensor.data_type]
    field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
    count = len(getattr(tensor, field))
    if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
        count //= 2  # real and imaginary parts one after the other
    if bits >= 8:
        return count * bits // 8
    # Elements under a byte are packed: one field entry holds one byte.
    return count


def _bits_per_element() -> dict[int, int]:
    from onnx import TensorProto as Types

    known = {
        "BOOL": 8, "INT8": 8, "UINT8": 8, "INT16": 16, "UINT16": 16, "INT32": 32, "UINT32": 32, "INT64": 64,
        "UINT64": 64, "FLOAT16": 16, "BFLOAT16": 16, "FLOAT": 32, "DOUBLE": 64, "COMPLEX64": 64, "COMPLEX128": 128,
        "FLOAT8E4M3FN": 8, "FLOAT8E4M3FNUZ": 8, "FLOAT8E5M2": 8, "FLOAT8E5M2FNUZ": 8, "FLOAT8E8M0": 8,
        "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2,
    }  # fmt: skip
    return {int(getattr(Types, name)): bits for name, bits in known.items() if hasattr(Types, name)}
