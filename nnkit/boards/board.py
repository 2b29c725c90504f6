"""The boards that there are: processor, compiler, memory, emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnkit.boards.tools import (
    ARM_COMPILER,
    ARM_SIZE,
    QEMU_ARM,
    QEMU_RV32,
    RV32_COMPILER,
    RV32_SIZE,
    missing_tools,
    require,
)

SEMIHOSTING = ("nnkit_semihosting.c", "nnkit_semihosting.h")
"""Files, messages and exit of a bare-metal program; of `nnkit/boards/c`, for other targets' programs too."""
QEMU_QUIET = ("-display", "none", "-monitor", "none")


@dataclass(frozen=True)
class Board:
    """A microcontroller as QEMU has it.

    compiler, size, emulator: names of programs. flags: for the processor;
    specs: for its C library, of compiler and linker. libraries: what the
    linker takes behind the objects. machine: arguments of the emulator. sources: of `nnkit/boards/c`, start-up and
    devices; script: the linker's. wrap_instructions: where the count of instructions begins anew.
    """

    name: str
    title: str
    compiler: str
    size: str
    flags: tuple[str, ...]
    specs: tuple[str, ...]
    libraries: tuple[str, ...]
    emulator: str
    machine: tuple[str, ...]
    sources: tuple[str, ...]
    script: str
    wrap_instructions: int

    def missing(self) -> str | None:
        """None when compiler and emulator are there, otherwise what to install."""
        return missing_tools((self.compiler, self.size, self.emulator))

    def emulation(self, elf: str, *, serial: str = "none") -> list[str]:
        """The command that runs a program; its messages come on standard output. Raises ToolError."""
        console = ("-chardev", "stdio,id=console", "-serial", serial)
        semihosting = ("-semihosting-config", "enable=on,target=native,chardev=console")
        return [require(self.emulator), *self.machine, *QEMU_QUIET, *console, *semihosting, "-kernel", elf]


_CORTEX_COUNT = ("-icount", "shift=6,align=off,sleep=off")


def _cortex(name: str, title: str, machine: str, unit: str, external: str) -> Board:
    return Board(
        name=name,
        title=title,
        compiler=ARM_COMPILER,
        size=ARM_SIZE,
        flags=(f"-mcpu={name}", "-mthumb", "-mfloat-abi=hard", f"-mfpu={unit}"),
        specs=("--specs=nosys.specs",),
        libraries=(f"-Wl,--defsym=external={external}", "-lm", "-lc", "-lgcc"),
        emulator=QEMU_ARM,
        machine=("-machine", machine, *_CORTEX_COUNT),
        sources=("start_cortex_m.S", "board_mps2.c", "nnkit_board.c", "nnkit_semihosting.c"),
        script="mps2.ld",
        wrap_instructions=(1 << 32) * 5 // 8,
    )


_ALL = (
    _cortex("cortex-m4", "Arm Cortex-M4 with FPU (QEMU mps2-an386)", "mps2-an386", "fpv4-sp-d16", "0x21000000"),
    _cortex("cortex-m7", "Arm Cortex-M7 with FPU (QEMU mps2-an500)", "mps2-an500", "fpv5-sp-d16", "0x60000000"),
    Board(
        name="rv32imac",
        title="RISC-V rv32imac, floats in software (QEMU virt)",
        compiler=RV32_COMPILER,
        size=RV32_SIZE,
        flags=("-march=rv32imac", "-misa-spec=2.2", "-mabi=ilp32", "-mcmodel=medany", "-msmall-data-limit=0"),
        specs=("--specs=picolibc.specs",),
        libraries=("-lm", "-lc", "-lgcc"),
        emulator=QEMU_RV32,
        machine=("-machine", "virt", "-cpu", "rv32", "-m", "32M", "-bios", "none", "-icount", "shift=0"),
        sources=("start_rv32.S", "board_virt.c", "nnkit_board.c", "nnkit_semihosting.c"),
        script="virt.ld",
        wrap_instructions=1 << 32,
    ),
)

BOARDS: Mapping[str, Board] = MappingProxyType({board.name: board for board in _ALL})
"""By name."""
