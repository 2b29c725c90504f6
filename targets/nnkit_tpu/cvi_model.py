"""The vendor's model of the cv18xx chips, in the child process of `chip_model.py`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError

_DTYPES: Mapping[int, Any] = {
    0: np.float32,
    1: np.int32,
    2: np.uint32,
    3: np.uint16,  # bfloat16: the upper half of a float32
    4: np.int16,
    5: np.uint16,
    6: np.int8,
    7: np.uint8,
}
_BF16 = 3
_MAX_DIMS = 6


class _Shape(ctypes.Structure):
    _fields_ = [("dim", ctypes.c_int32 * _MAX_DIMS), ("dim_size", ctypes.c_size_t)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("shape", _Shape),
        ("fmt", ctypes.c_int),
        ("count", ctypes.c_size_t),
        ("mem_size", ctypes.c_size_t),
        ("sys_mem", ctypes.c_void_p),
        ("paddr", ctypes.c_uint64),
        ("mem_type", ctypes.c_int),
        ("qscale", ctypes.c_float),
        ("zero_point", ctypes.c_int),
        ("pixel_format", ctypes.c_int),
        ("aligned", ctypes.c_bool),
        ("mean", ctypes.c_float * 3),
        ("scale", ctypes.c_float * 3),
        ("owner", ctypes.c_void_p),
        ("reserved", ctypes.c_char * 32),
    ]


def run_cvi(model: str, runs: Sequence[Mapping[str, NDArray[Any]]], libraries: str) -> list[dict[str, NDArray[Any]]]:
    """Outputs by the compiler's name of every run. Raises ToolError where the runtime refuses something."""
    ctypes.CDLL(f"{libraries}/libcvicmodel.so", mode=ctypes.RTLD_GLOBAL)
    runtime = ctypes.CDLL(f"{libraries}/libcviruntime.so")
    handle = ctypes.c_void_p()
    if runtime.CVI_NN_RegisterModel(model.encode(), ctypes.byref(handle)) != 0:
        raise ToolError("the runtime refuses the model", where=model)
    inputs, outputs = ctypes.POINTER(_Tensor)(), ctypes.POINTER(_Tensor)()
    counts = ctypes.c_int32(), ctypes.c_int32()
    pointers = (ctypes.byref(inputs), ctypes.byref(counts[0]), ctypes.byref(outputs), ctypes.byref(counts[1]))
    if runtime.CVI_NN_GetInputOutputTensors(handle, *pointers) != 0:
        raise ToolError("the runtime names no inputs and outputs", where=model)
    runtime.CVI_NN_TensorPtr.restype = ctypes.c_void_p
    runtime.CVI_NN_TensorPtr.argtypes = [ctypes.c_void_p]
    results = []
    for given in runs:
        for index in range(counts[0].value):
            _fill(runtime, inputs[index], given)
        if runtime.CVI_NN_Forward(handle, inputs, counts[0], outputs, counts[1]) != 0:
            raise ToolError("the inference failed", where=model)
        results.append(dict(_taken(runtime, outputs[index]) for index in range(counts[1].value)))
    return results


def _fill(runtime: Any, tensor: Any, given: Mapping[str, NDArray[Any]]) -> None:
    name = tensor.name.decode()
    plain = next((n for n in given if name == n or name.startswith(f"{n}_")), None)
    if plain is None:
        raise ToolError("no value given for this input", where=name)
    value = np.ascontiguousarray(given[plain], _DTYPES[tensor.fmt])
    if value.nbytes > tensor.mem_size:
        raise ToolError(f"{value.nbytes} bytes given, the input holds {tensor.mem_size}", where=name)
    ctypes.memmove(runtime.CVI_NN_TensorPtr(ctypes.byref(tensor)), value.ctypes.data, value.nbytes)


def _taken(runtime: Any, tensor: Any) -> tuple[str, NDArray[Any]]:
    shape = tuple(tensor.shape.dim[: tensor.shape.dim_size])
    result = np.zeros(shape, _DTYPES[tensor.fmt])
    ctypes.memmove(result.ctypes.data, runtime.CVI_NN_TensorPtr(ctypes.byref(tensor)), result.nbytes)
    if tensor.fmt == _BF16:
        result = (result.astype(np.uint32) << 16).view(np.float32)
    return tensor.name.decode(), result
