"""The vendor's model of the BM168x chips, in a child process: `python -m nnkit_tpu.chip_model MODEL CHIP IN OUT`.

The libraries are loaded through ctypes. A crash in them ends the child only; the parent makes a message of it.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit_tpu.toolchain import Toolchain

_DTYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.uint8, 4: np.int16, 5: np.uint16, 6: np.int32}
_MAX_DIMS = 8
_TIMEOUT_S = 600.0


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


def run_on_chip_model(
    toolchain: Toolchain, model: Path, chip: str, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Outputs by the compiler's name of one inference; inputs by the same names, batch included.

    Raises ToolError when the chip model fails.
    """
    with tempfile.TemporaryDirectory(prefix="nnkit-chip-") as temporary:
        work = Path(temporary)
        links = work / "lib"
        links.mkdir()
        library = toolchain.libraries / f"libbmlib_{chip}.so.0"
        if not library.exists():
            library = toolchain.libraries / "libbmlib_bm1684x.so.0"
        (links / "libcmodel.so").symlink_to(toolchain.libraries / f"libcmodel_{chip}.so")
        (links / "libbmlib.so.0").symlink_to(library)
        (links / "libbmlib.so").symlink_to(library)
        np.savez(work / "inputs.npz", **inputs)  # type: ignore[arg-type]
        environment = dict(toolchain.environment)
        environment["LD_LIBRARY_PATH"] = ":".join((str(links), environment.get("LD_LIBRARY_PATH", "")))
        environment["PYTHONPATH"] = ":".join(path for path in sys.path if path)
        command = [sys.executable, "-m", "nnkit_tpu.chip_model", str(model.resolve()), str(work / "inputs.npz")]
        try:
            done = subprocess.run(
                [*command, str(work / "outputs.npz"), str(toolchain.libraries)],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"the chip model did not end within {_TIMEOUT_S:.0f} s", where=str(model)) from error
        if done.returncode != 0 or not (work / "outputs.npz").exists():
            log = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise ToolError(f"the chip model failed (code {done.returncode})\n  {log}", where=str(model))
        with np.load(work / "outputs.npz") as found:
            return {name: found[name] for name in found.files}


def _run(model: str, inputs: Mapping[str, NDArray[Any]], libraries: str) -> dict[str, NDArray[Any]]:
    """In the child: load the libraries, the model, launch once."""
    device = ctypes.CDLL("libbmlib.so.0", mode=ctypes.RTLD_GLOBAL)
    runtime = ctypes.CDLL(f"{libraries}/libbmrt.so.1.0")
    handle = ctypes.c_void_p()
    if device.bm_dev_request(ctypes.byref(handle), 0) != 0:
        raise ToolError("the chip model gives no device")
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
    runtime.bmrt_launch_data.restype = ctypes.c_bool
    runtime.bmrt_launch_data.argtypes = [
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_bool),
    ]
    given = (ctypes.c_void_p * len(sources))(*(a.ctypes.data for a in sources))
    given_shapes = (_Shape * len(sources))(*(stage.input_shapes[i] for i in range(len(sources))))
    taken = (ctypes.c_void_p * len(results))(*(a.ctypes.data for a in results))
    taken_shapes = (_Shape * len(results))()
    arguments = (given, given_shapes, len(sources), taken, taken_shapes, len(results), True)
    if not runtime.bmrt_launch_data(context, names[0], *arguments):
        raise ToolError("the launch failed", where=model)
    return {info.output_names[i].decode(): results[i] for i in range(info.output_num)}


def _main(model: str, source: str, target: str, libraries: str) -> None:
    import os

    with np.load(source) as found:
        inputs = {name: found[name] for name in found.files}
    try:
        outputs = _run(model, inputs, libraries)
    except ToolError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    np.savez(target, **outputs)  # type: ignore[arg-type]
    os._exit(0)  # the libraries crash in their destructors


if __name__ == "__main__":
    _main(*sys.argv[1:5])
