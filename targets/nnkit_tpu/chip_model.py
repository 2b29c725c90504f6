"""The vendor's models of its chips, in a child process: `python -m nnkit_tpu.chip_model MODEL CHIP IN OUT LIBRARIES`.

The libraries are loaded through ctypes: the runtime of the BM168x with one library for each chip, or that of the
cv18xx (`cvi_model.py`). A crash in them ends the child only; the parent makes a message of it.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit_tpu.toolchain import Toolchain

_DTYPES = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.uint8, 4: np.int16, 5: np.uint16, 6: np.int32}
_MAX_DIMS = 8
_TIMEOUT_S = 600.0

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


def run_on_chip_model(
    toolchain: Toolchain, model: Path, chip: str, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Outputs by the compiler's name of one inference; inputs by the same names, batch included.

    Raises ToolError when the chip model fails.
    """
    return run_all_on_chip_model(toolchain, model, chip, [inputs])[0]


def run_all_on_chip_model(
    toolchain: Toolchain, model: Path, chip: str, inputs: Sequence[Mapping[str, NDArray[Any]]]
) -> list[dict[str, NDArray[Any]]]:
    """`run_on_chip_model` for several inferences: the model is loaded once.

    Raises ToolError when the chip model fails.
    """
    with tempfile.TemporaryDirectory(prefix="nnkit-chip-") as temporary:
        work = Path(temporary)
        links = work / "lib"
        links.mkdir()
        _link_libraries(toolchain, chip, links)
        _save(work / "inputs.npz", inputs)
        environment = dict(toolchain.environment, SET_CHIP_NAME=chip)
        environment["LD_LIBRARY_PATH"] = ":".join((str(links), environment.get("LD_LIBRARY_PATH", "")))
        environment["PYTHONPATH"] = ":".join(path for path in sys.path if path)
        files = [str(model.resolve()), chip, str(work / "inputs.npz"), str(work / "outputs.npz")]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "nnkit_tpu.chip_model", *files, str(toolchain.libraries)],
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
        return _load(work / "outputs.npz")


def _link_libraries(toolchain: Toolchain, chip: str, links: Path) -> None:
    """The names that the BM runtime looks for, private to this run: another one may use another chip's."""
    if chip.startswith("cv"):
        return
    library = toolchain.libraries / f"libbmlib_{chip}.so.0"
    if not library.exists():
        library = toolchain.libraries / "libbmlib_bm1684x.so.0"
    (links / "libcmodel.so").symlink_to(toolchain.libraries / f"libcmodel_{chip}.so")
    (links / "libbmlib.so.0").symlink_to(library)
    (links / "libbmlib.so").symlink_to(library)


def _save(path: Path, runs: Sequence[Mapping[str, NDArray[Any]]]) -> None:
    arrays = {f"{index}/{name}": value for index, run in enumerate(runs) for name, value in run.items()}
    with path.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def _load(path: Path) -> list[dict[str, NDArray[Any]]]:
    runs: dict[int, dict[str, NDArray[Any]]] = {}
    with np.load(path) as found:
        for key in found.files:
            index, _, name = key.partition("/")
            runs.setdefault(int(index), {})[name] = found[key]
    return [runs[index] for index in sorted(runs)]


def _run_bm(model: str, runs: Sequence[Mapping[str, NDArray[Any]]], libraries: str) -> list[dict[str, NDArray[Any]]]:
    """In the child: load the libraries, the model, launch once for every run."""
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
    return [_launch(runtime, context, names[0], info, inputs) for inputs in runs]


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


def _main(model: str, chip: str, source: str, target: str, libraries: str) -> None:
    import os

    runs = _load(Path(source))
    try:
        if chip.startswith("cv"):
            from nnkit_tpu.cvi_model import run_cvi

            outputs = run_cvi(model, runs, libraries)
        else:
            outputs = _run_bm(model, runs, libraries)
    except (ToolError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    _save(Path(target), outputs)
    os._exit(0)  # the libraries crash in their destructors


if __name__ == "__main__":
    _main(*sys.argv[1:6])
