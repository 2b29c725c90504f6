"""Where the vendor's toolchain is: our own installation, or one on PATH where the recipe says so."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from nnkit.errors import ToolError
from nnkit.trust import why_not_private
from nnkit_tpu.toolchain.install import installation_folder, read_installation

ToolchainSource: TypeAlias = Literal["managed", "path"]

INSTALL_COMMAND = "nnkit doctor --install tpu"
_COMPILER = "tpuc-opt"


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
    compiler = shutil.which(_COMPILER)
    if compiler is None:
        return None
    return Toolchain(Path(compiler).resolve().parent.parent, "path", _version_beside(Path(compiler).resolve()))


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


def _version_beside(compiler: Path) -> str:
    """The version of an installation that came as a Python package, else `unknown`."""
    for info in sorted(compiler.parent.parent.parent.glob("tpu_mlir-*.dist-info")):
        return info.name.removeprefix("tpu_mlir-").removesuffix(".dist-info")
    return "unknown"
