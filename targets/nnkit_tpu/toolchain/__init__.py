"""The vendor's compiler and chip models as a managed dependency: found, installed, run."""

from nnkit_tpu.toolchain.find import (
    Toolchain,
    ToolchainSource,
    check_version,
    damage,
    find_toolchain,
    require_toolchain,
)
from nnkit_tpu.toolchain.install import Installation, install, installation_folder
from nnkit_tpu.toolchain.run import run_tpuc_opt

__all__ = [
    "Installation",
    "Toolchain",
    "ToolchainSource",
    "check_version",
    "damage",
    "find_toolchain",
    "install",
    "installation_folder",
    "require_toolchain",
    "run_tpuc_opt",
]
