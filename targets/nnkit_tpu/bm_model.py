"""The vendor's models of the BM168x chips, in the child process of `chip_model.py`.

One library for each chip, which the runtime of the boards drives. The bm1684x model has a thread for every engine and
one for the firmware, and all of them poll for work. Commands go from the caller through the firmware to the engines
that transfer and compute, and back: these four need the time alike, as each waits for another (with less for one of
them, small networks took five times as long on two busy cores). The rest have nothing to do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError

_DTYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.uint8, 4: np.int16, 5: np.uint16, 6: np.int32}
_MAX_DIMS = 8
_REINSTALL = "install the toolchain again: nnkit doctor --install tpu"


class _Shape(ctypes.Structure):
    _fields_ = [("num_dims", ctypes.c_int), ("dims", ctypes.c_int * _MAX_DIMS)]


class _Stage(ctypes.Structure):
    _fields_ = [("input_shapes", ctypes.POINTER(_Shape)), ("output_shapes", ctypes.POINTER(_Shape))]


class _NetInfo(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("is_dynamic", ctypes.c_bool),
        ("input_num", ctypes.c_int),
        ("input_names", ctypes.POINTER(ctypes.c_char_p)),
        ("input_dtypes", ctypes.POINTER(ctypes.c_int)),
        ("input_scales", ctypes.POINTER(ctypes.c_float)),
        ("output_num", ctypes.c_int),
        ("output_names", ctypes.POINTER(ctypes.c_char_p)),
        ("output_dtypes", ctypes.POINTER(ctypes.c_int)),
        ("output_scales", ctypes.POINTER(ctypes.c_float)),
        ("stage_num", ctypes.c_int),
        ("stages", ctypes.POINTER(_Stage)),
    ]


_AT_WORK = ("TPU_BD", "TPU_GDMA", "CORE_MAIN")
_POLLING_NICENESS = 19
_THREADS = Path("/proc/self/task")


def run_bm(model: str, runs: Sequence[Mapping[str, NDArray[Any]]], libraries: str) -> list[dict[str, NDArray[Any]]]:
    """Outputs by the compiler's name of every run. Raises ToolError where the runtime refuses something."""
    device = ctypes.CDLL("libbmlib.so.0", mode=ctypes.RTLD_GLOBAL)
    runtime = ctypes.CDLL(f"{libraries}/libbmrt.so.1.0")
    handle = ctypes.c_void_p()
    if device.bm_dev_request(ctypes.byref(handle), 0) != 0:
        raise ToolError("the chip model gives no device", where="libbmlib", remedy=_REINSTALL)
    runtime.bmrt_create.restype = ctypes.c_void_p
    runtime.bmrt_create.argtypes = [ctypes.c_void_p]
    context = ctypes.c_void_p(runtime.bmrt_create(handle))
    runtime.bmrt_load_bmodel.restype = ctypes.c_bool
    runtime.bmrt_load_bmodel.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    if not runtime.bmrt_load_bmodel(context, model.encode()):
        raise ToolError("the runtime refuses the model", where=model)
    names = ctypes.POINTER(ctypes.c_char_p)()
    runtime.bmrt_get_network_names.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    runtime.bmrt_get_network_names(context, ctypes.byref(names))
    runtime.bmrt_get_network_info.restype = ctypes.POINTER(_NetInfo)
    runtime.bmrt_get_network_info.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    info = runtime.bmrt_get_network_info(context, names[0]).contents
    runtime.bmrt_launch_data.restype = ctypes.c_bool
    runtime.bmrt_launch_data.argtypes = [
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_bool),
    ]
    _prefer_threads_at_work()
    return [_launch(runtime, context, names[0], info, inputs) for inputs in runs]


def _prefer_threads_at_work() -> None:
    """Lower the priority of the engines that only poll; nothing where the model names no engine."""
    with contextlib.suppress(OSError):  # a system that forbids it, or has no such folder: slower, not wrong
        names = {int(thread.name): (thread / "comm").read_text().strip() for thread in _THREADS.iterdir()}
        if not set(_AT_WORK) <= set(names.values()):
            return
        for thread, name in names.items():
            if name not in _AT_WORK and thread != os.getpid():
                os.setpriority(os.PRIO_PROCESS, thread, _POLLING_NICENESS)


def _launch(
    runtime: Any, context: Any, network: bytes, info: Any, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    stage = info.stages[0]
    sources = []
    for i in range(info.input_num):
        name = info.input_names[i].decode()
        if name not in inputs:
            raise ToolError("no value given for this input", where=name)
        sources.append(np.ascontiguousarray(inputs[name], _DTYPES[info.input_dtypes[i]]))
    shapes = [stage.output_shapes[i] for i in range(info.output_num)]
    results = [
        np.zeros(tuple(shape.dims[: shape.num_dims]), _DTYPES[info.output_dtypes[i]])
        for i, shape in enumerate(shapes)
    ]
    given = (ctypes.c_void_p * len(sources))(*(a.ctypes.data for a in sources))
    given_shapes = (_Shape * len(sources))(*(stage.input_shapes[i] for i in range(len(sources))))
    taken = (ctypes.c_void_p * len(results))(*(a.ctypes.data for a in results))
    taken_shapes = (_Shape * len(results))()
    arguments = (given, given_shapes, len(sources), taken, taken_shapes, len(results), True)
    if not runtime.bmrt_launch_data(context, network, *arguments):
        raise ToolError("the chip model cannot launch the network", where="libbmrt", remedy=_REINSTALL)
    return {info.output_names[i].decode(): results[i] for i in range(info.output_num)}
