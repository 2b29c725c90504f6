"""Compile and run the plain C of a Program, on this host or on the emulated rv32imc, and check every value."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_network import Style, plain_network
from nnkit.boards.board import SEMIHOSTING
from nnkit.boards.tools import QEMU_RV32, RV32_COMPILER, require, run_in
from nnkit.c.host_compiler import host_compiler
from nnkit.c.sources import TYPES_HEADER, types_header
from nnkit.generated import packaged_text
from nnkit.program import Program
from nnkit_gap8.compile_flags import RV32_FLAGS

Machine: TypeAlias = Literal["rv32", "host"]

_SOURCES = Path(__file__).resolve().parent / "plain"
_WRAPPING = "-fwrapv"  # an accumulator without a proof wraps, as in the Program
_TIMEOUT_S = 300.0


def run_plain(
    program: Program,
    inputs: Mapping[str, NDArray[np.int64]],
    expected: Mapping[str, NDArray[Any]],
    folder: Path,
    *,
    style: Style,
    machine: Machine,
    optimisation: str,
) -> dict[str, int]:
    """Instructions (rv32) or nanoseconds (host) of every layer. `folder` must not exist yet.

    Raises SystemExit when a tensor differs from `expected`: counts of a wrong program mean nothing.
    """
    network = plain_network(program, style)
    folder.mkdir()
    (folder / "main.c").write_text(network.source, encoding="utf-8")
    (folder / "weights.bin").write_bytes(network.weights)
    for index, name in enumerate(program.inputs):
        dtype = program.tensors[name].fixed.dtype.newbyteorder("<")
        (folder / f"input{index}.bin").write_bytes(np.ascontiguousarray(inputs[name], dtype=dtype).tobytes())
    command = _rv32(folder, optimisation) if machine == "rv32" else _host(folder, optimisation)
    run_in(folder, command, _TIMEOUT_S)
    _compare(program, network.outputs, expected, (folder / "tensors.bin").read_bytes(), style)
    counts = [line.split() for line in (folder / "measures.txt").read_text().splitlines()]
    return {program.ops[int(op)].name: int(count) for _, op, count in counts}


def _host(folder: Path, optimisation: str) -> list[str]:
    compiler = host_compiler()
    if compiler is None:
        raise SystemExit("no C compiler: install gcc or clang, or set CC")
    flags = [optimisation, _WRAPPING, "-std=c99", f"-I{_SOURCES}", "-o", "network"]
    run_in(folder, [compiler, *flags, "main.c", str(_SOURCES / "harness_host.c")], _TIMEOUT_S)
    return [str(folder / "network")]


def _rv32(folder: Path, optimisation: str) -> list[str]:
    runtime = resources.files("nnkit_gap8") / "c" / "rv32"
    for name in ("crt0.S", "rv32_runtime.c", "rv32_runtime.h", "string.h"):
        (folder / name).write_bytes((runtime / name).read_bytes())
    for name in SEMIHOSTING:
        (folder / name).write_text(packaged_text("nnkit", "boards", "c", name), encoding="utf-8")
    (folder / TYPES_HEADER).write_text(types_header(), encoding="utf-8")
    flags = [*RV32_FLAGS, "-std=gnu99", optimisation, _WRAPPING, f"-I{_SOURCES}", "-I."]
    sources = ["main.c", "crt0.S", "rv32_runtime.c", SEMIHOSTING[0], str(_SOURCES / "harness_rv32.c")]
    link = ["-nostdlib", "-nostartfiles", "-T", str(_SOURCES / "rv32.ld"), "-o", "network.elf"]
    run_in(folder, [require(RV32_COMPILER), *flags, *link, *sources, "-lgcc"], _TIMEOUT_S)
    return [
        require(QEMU_RV32),
        *("-machine", "virt", "-cpu", "rv32", "-m", "128M", "-smp", "1", "-bios", "none"),
        *("-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=console"),
        *("-semihosting-config", "enable=on,target=native,chardev=console", "-icount", "shift=0"),
        *("-kernel", "network.elf"),
    ]


def _compare(
    program: Program, outputs: tuple[str, ...], expected: Mapping[str, NDArray[Any]], data: bytes, style: str
) -> None:
    offset = 0
    for name in outputs:
        tensor = program.tensors[name]
        stored = np.frombuffer(data, tensor.fixed.dtype.newbyteorder("<"), tensor.elements, offset)
        offset += tensor.size_bytes
        wrong = int(np.count_nonzero(stored != expected[name].reshape(-1)))
        if wrong:
            raise SystemExit(f"{style} C: {wrong} of {tensor.elements} values of {name!r} differ from the simulator")
