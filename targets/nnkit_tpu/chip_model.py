"""The vendor's models of its chips, in a child process: `python -m nnkit_tpu.chip_model MODEL CHIP IN OUT LIBRARIES`.

Libraries are loaded through ctypes: those of the BM168x (`bm_model.py`) or of the cv18xx (`cvi_model.py`). A crash
in them ends the child only; the parent makes a message of it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.children.start import python_child
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool
from nnkit.terminal import flush, write_lines
from nnkit.visible import visible
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.toolchain import Toolchain
from nnkit_tpu.toolchain.room import working_folder

_TIMEOUT_S = 600.0


def run_on_chip_model(
    toolchain: Toolchain, model: Path, chip: str, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Outputs by the compiler's name of one inference; inputs by the same names, batch included.

    Raises ToolError when the chip model fails, UserFileError where the folder of temporary files is full.
    """
    return run_all_on_chip_model(toolchain, model, chip, [inputs])[0]


def run_all_on_chip_model(
    toolchain: Toolchain, model: Path, chip: str, inputs: Sequence[Mapping[str, NDArray[Any]]]
) -> list[dict[str, NDArray[Any]]]:
    """`run_on_chip_model` for several inferences: the model is loaded once."""
    with working_folder("nnkit-chip-") as work:
        links = work / "lib"
        links.mkdir()
        _link_libraries(toolchain, chip, links)
        _save(work / "inputs.npz", inputs)
        variables = {name: toolchain.environment[name] for name in ("TPUC_ROOT", "OMP_NUM_THREADS")}
        variables["SET_CHIP_NAME"] = chip
        variables["LD_LIBRARY_PATH"] = f"{links}:{toolchain.environment.get('LD_LIBRARY_PATH', '')}"
        files = [str(model.resolve()), chip, str(work / "inputs.npz"), str(work / "outputs.npz")]
        command, environment = python_child(
            "nnkit_tpu.chip_model", *files, str(toolchain.libraries), variables=variables
        )
        run = run_tool(command, folder=work, environment=environment, timeout_s=_TIMEOUT_S)
        if run.failed or not (work / "outputs.npz").exists():
            remedy = "the vendor's library refused the model or crashed on it: please report it with the model"
            raise run.error("the chip model", where=str(model), remedy=remedy)
        return _load(work / "outputs.npz")


def _link_libraries(toolchain: Toolchain, chip: str, links: Path) -> None:
    """The names that the BM runtime looks for, private to this run: another one may use another chip's."""
    if chip in CV_CHIPS:
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
    with np.load(path) as arrays:
        for key in arrays.files:
            index, _, name = key.partition("/")
            runs.setdefault(int(index), {})[name] = arrays[key]
    return [runs[index] for index in sorted(runs)]


def _main(model: str, chip: str, source: str, target: str, libraries: str) -> None:
    import os

    runs = _load(Path(source))
    try:
        if chip in CV_CHIPS:
            from nnkit_tpu.cvi_model import run_cvi as run
        else:
            from nnkit_tpu.bm_model import run_bm as run
        outputs = run(model, runs, libraries)
    except (ToolError, OSError) as error:
        write_lines(sys.stderr, visible(str(error)))
        flush(sys.stderr)
        os._exit(1)
    _save(Path(target), outputs)
    os._exit(0)  # the libraries crash in their destructors


if __name__ == "__main__":
    _main(*sys.argv[1:6])
