"""A folder as a stranger may send it: modules, packages' metadata, programs and settings that tools look for where
they run; and a watch on it, which tells what of that was opened."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

MODULES = (
    *("nnkit", "nnkit_gap8", "nnkit_evil", "nnkit_onnx_qdq", "__main__", "sitecustomize", "usercustomize"),
    *("typing", "types", "json", "runpy", "contextlib", "collections", "operator", "re", "enum", "random", "pickle"),
    *(
        "subprocess",
        "tempfile",
        "socket",
        "logging",
        "multiprocessing",
        "concurrent",
        "importlib",
        "ctypes",
        "copyreg",
    ),
    *(
        "numpy",
        "onnx",
        "onnxruntime",
        "onnxsim",
        "yaml",
        "typer",
        "rich",
        "pydantic",
        "PIL",
        "jinja2",
        "cryptography",
    ),
    *("winreg", "_winapi", "msvcrt", "nt"),  # of other systems: Python tries them, and finds none
    *("numba", "ortools", "dask", "distributed", "cloudpickle", "pip", "torch", "fastapi", "uvicorn", "tflite"),
)
PROGRAMS = (
    *(
        "cc",
        "gcc",
        "clang",
        "as",
        "ld",
        "cc1",
        "collect2",
        "sh",
        "grep",
        "uname",
        "ldconfig",
        "python",
        "python3",
        "pip",
    ),
    *("arm-none-eabi-gcc", "arm-none-eabi-size", "riscv64-unknown-elf-gcc", "riscv64-unknown-elf-size", "objdump"),
    *("qemu-system-arm", "qemu-system-riscv32", "gvsoc", "tpuc-opt", "nnie_mapper_11", "nnie_mapper_12", "xdg-open"),
)
SETTINGS = (
    *(".numba_config.yaml", "distributed.yaml", "dask.yaml", "pip.conf", "setup.cfg", "pyproject.toml", "evil.pth"),
    *(
        "pyvenv.cfg",
        "specs",
        "python311._pth",
        ".env",
        "libgcc_s.so.1",
        "libc.so.6",
        "libm.so.6",
        "libgcc.a",
        ".netrc",
    ),
    *(
        "config.yaml",
        ".gdbinit",
        "openssl.cnf",
        "qemu.conf",
        "Makefile",
        "GNUmakefile",
        "crt1.o",
        "libnnkit_count.so",
    ),
)
PLUGIN = "nnkit_evil-1.0.dist-info"
_IN_OPEN, _IN_NONBLOCK = 0x20, os.O_NONBLOCK


def fill(folder: Path, *, keep: float = 1.0, chance: Random | None = None) -> None:
    """Put all files of these names into the folder, or that share of them, drawn; and the metadata of a plugin for
    nnkit and for libraries."""
    draw = chance or Random(0)
    for names, write in ((MODULES, _write_module), (PROGRAMS, _write_program), (SETTINGS, _write_settings)):
        for name in names:
            if draw.random() < keep:
                write(folder, name)
    plugin = folder / PLUGIN
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: nnkit-evil\nVersion: 1.0\n")
    groups = ("nnkit.targets", "pydantic", "console_scripts", "dask.backends", "distributed.preload")
    (plugin / "entry_points.txt").write_text("".join(f"[{group}]\nevil = nnkit_evil:TARGET\n" for group in groups))


def _write_module(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text(f"import os\nos.write(2, b'hostile: {name} was imported\\n')\nos._exit(99)\n")


def _write_program(folder: Path, name: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho 'hostile: {name} was run' >&2\nexit 99\n")
    (folder / name).chmod(0o755)


def _write_settings(folder: Path, name: str) -> None:
    (folder / name).write_text("hostile: true\n")


class Watch:
    """What is opened of these folders while the block runs, by whatever process: to be read, imported or run."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [*folders, *(folder / PLUGIN for folder in folders)]
        self._names: dict[int, Path] = {}
        self._handle = -1
        self._library = ctypes.CDLL(None, use_errno=True)

    def __enter__(self) -> Watch:
        self._handle = self._library.inotify_init1(_IN_NONBLOCK)
        for folder in self._folders:
            number = self._library.inotify_add_watch(self._handle, os.fsencode(folder), _IN_OPEN)
            if self._handle < 0 or number < 0:
                raise OSError(ctypes.get_errno(), "the folder cannot be watched", str(folder))
            self._names[number] = folder
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._handle)

    def opened(self) -> list[str]:
        """Hostile files that were opened so far."""
        known = {*(f"{module}.py" for module in MODULES), *PROGRAMS, *SETTINGS, "METADATA", "entry_points.txt"}
        found = set[str]()
        while True:
            try:
                events = os.read(self._handle, 1 << 16)
            except BlockingIOError:
                return sorted(found)
            while events:
                number, _, _, length = struct.unpack_from("iIII", events)
                name = events[16 : 16 + length].rstrip(b"\0").decode()
                events = events[16 + length :]
                if name in known:
                    found.add(str(self._names[number] / name))


AVAILABLE = sys.platform == "linux"
