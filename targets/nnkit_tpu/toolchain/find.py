"""Where the vendor's toolchain is: our own installation, or one on PATH where the recipe says so."""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from nnkit.children.search import found_program
from nnkit.errors import ToolError
from nnkit.trust import why_not_private
from nnkit_tpu.toolchain.install import changed_files, installation_folder, read_installation
from nnkit_tpu.toolchain.wheel import VERSION

ToolchainSource: TypeAlias = Literal["managed", "path"]

INSTALL_COMMAND = "nnkit doctor --install tpu"
_COMPILER = "tpuc-opt"
_UNKNOWN = "unknown"
_BUILT_IN = re.compile(rb"v(\d+\.\d+\.\d+)-20\d{6}")  # release and date


@dataclass(frozen=True)
class Toolchain:
    """A usable toolchain. root: the folder with `bin/` and `lib/`. version: as installed, or as the compiler says.

    timeout_s: how long one run of the compiler may take.
    """

    root: Path
    source: ToolchainSource
    version: str
    timeout_s: float = 900.0

    @property
    def compiler(self) -> Path:
        """The compiler."""
        return self.root / "bin" / _COMPILER

    @property
    def libraries(self) -> Path:
        """The folder of the libraries."""
        return self.root / "lib"

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment in which its programs run."""
        environment = dict(os.environ, TPUC_ROOT=str(self.root), OMP_NUM_THREADS="1")
        if self.source == "managed":
            folders = [str(self.libraries), str(self.libraries / "third_party")]
            environment["LD_LIBRARY_PATH"] = ":".join(folders)
        return environment


def find_toolchain(source: ToolchainSource = "managed") -> Toolchain | None:
    """The toolchain, None where there is none. `path`: the `tpuc-opt` that the shell would find.

    Raises ToolError where others than this user could have written to the installed one.
    """
    if source == "managed":
        installed = read_installation(installation_folder())
        if installed is None:
            return None
        refused = why_not_private(installed.folder)
        if refused is not None:
            raise ToolError(
                f"the installed TPU toolchain is not run: {refused}",
                where=str(installed.folder),
                remedy=f"mend it, remove the folder and install it again: `{INSTALL_COMMAND}`",
            )
        return Toolchain(installed.folder, "managed", installed.version)
    compiler = found_program(_COMPILER)
    if compiler is None:
        return None
    return Toolchain(Path(compiler).resolve().parent.parent, "path", _version_of(Path(compiler).resolve()))


def require_toolchain(source: ToolchainSource = "managed") -> Toolchain:
    """The toolchain. Raises ToolError with the way to get it."""
    there = find_toolchain(source)
    if there is None:
        if source == "path":
            raise ToolError(
                "the TPU compiler is not on PATH",
                where=_COMPILER,
                remedy=f"put the vendor's bin folder on PATH, or use `toolchain: managed` and `{INSTALL_COMMAND}`",
            )
        raise ToolError("the TPU toolchain is not installed", where=_COMPILER, remedy=INSTALL_COMMAND)
    return there


def check_version(toolchain: Toolchain) -> None:
    """Raises ToolError for another version than nnkit was made for: its options and arithmetic may be others."""
    if toolchain.version != VERSION:
        told = "does not tell its version" if toolchain.version == _UNKNOWN else f"is of tpu_mlir {toolchain.version}"
        raise ToolError(
            f"this compiler {told}, and nnkit predicts and reads what {VERSION} makes",
            where=str(toolchain.compiler),
            remedy=f"put tpu_mlir {VERSION} on PATH, or use `toolchain: managed` and `{INSTALL_COMMAND}`",
        )


def damage(toolchain: Toolchain) -> str:
    """What is wrong with a toolchain that was found: files that are not as installed, or another version."""
    if toolchain.source == "managed":
        changed = changed_files(toolchain.root)
        return f"{', '.join(changed)} changed since it was installed" if changed else ""
    try:
        check_version(toolchain)
    except ToolError as error:
        return error.reason
    return ""


def _version_of(compiler: Path) -> str:
    """The version of an installation that came as a Python package, else what the compiler itself holds."""
    for info in sorted(compiler.parent.parent.parent.glob("tpu_mlir-*.dist-info")):
        return info.name.removeprefix("tpu_mlir-").removesuffix(".dist-info")
    try:
        with compiler.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            match = _BUILT_IN.search(content)
            return match[1].decode() if match is not None else _UNKNOWN
    except (OSError, ValueError):
        return _UNKNOWN
