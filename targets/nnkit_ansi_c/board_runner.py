"""Runs the library on an emulated board: every layer compared, instructions, stack and code measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from nnkit.boards import Board, Firmware
from nnkit.boards.tools import missing_tools
from nnkit.c.sources import c_environment, tidy_source
from nnkit.owned_folder import temporary_folder
from nnkit.program import Program
from nnkit.target import Contract, RunResult
from nnkit_ansi_c.runner import described, input_bytes, layer_bound, split_values

_FLAGS = ("-std=c99", "-O3", "-ffp-contract=fast", "-ffunction-sections", "-fdata-sections")
_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class _Measures:
    """What one program measured.

    runs: (instructions, bytes of stack) of each set of inputs. layers: instructions, in order.
    """

    runs: list[tuple[int, int]]
    layers: list[int]


@dataclass(frozen=True)
class BoardRunner:
    """Compiles with the board's cross compiler and runs under QEMU, where instruction counts are exact.

    `measured` holds arena_bytes, stack_bytes (touched by the call), code_bytes (instructions and constants of the
    network and its kernels, without weights and the compiler's libraries) and weight_bytes. flags: of the compiler.
    """

    board: Board
    flags: tuple[str, ...] = _FLAGS
    contract: Contract = "bounded"
    emulated: bool = True
    layer_by_layer: Literal[True] = True

    @property
    def name(self) -> str:
        """The board's."""
        return self.board.name

    def missing(self) -> str | None:
        """None when cross compiler and emulator are there, otherwise what to install."""
        return self.board.missing()

    def without_compiler(self) -> str | None:
        """None when the cross compiler is there, otherwise what to install."""
        return missing_tools((self.board.compiler, self.board.size))

    def code_bytes(self, artifact: Path) -> int:
        """Instructions and constants, as `measured` has them; nothing is run. Raises ToolError."""
        record, artifact = described(artifact), artifact.resolve()
        with temporary_folder("nnkit-board-") as folder:
            return _Bench(artifact, record, Firmware(self.board, folder, self.flags, (artifact,))).code_bytes()

    def bound(self, program: Program, tensor: str) -> float:
        """See `layer_bound`."""
        return layer_bound(program, tensor)

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs; instructions by layer are those of the first.

        Raises ToolError when a tool fails, the program does not fit, or it faults.
        """
        record, artifact = described(artifact), artifact.resolve()
        with temporary_folder("nnkit-board-") as folder:
            bench = _Bench(artifact, record, Firmware(self.board, folder, self.flags, (artifact,)))
            bench.write_main()
            data = input_bytes(record, program, inputs)
            plain = bench.run("plain", data, _TIMEOUT_S * len(inputs))
            traced = bench.run("traced", data, _TIMEOUT_S * len(inputs))
            code_bytes = bench.code_bytes()
            outputs = split_values(folder / "plain/outputs.bin", record["outputs"], program, len(inputs))
            layers = split_values(folder / "traced/layers.bin", record["layers"], program, len(inputs))
        ops = {op.output: op.name for op in program.ops}
        by_layer: dict[str, int] = {}
        for entry, count in zip(record["layers"], traced.layers, strict=False):
            by_layer[ops[entry["name"]]] = by_layer.get(ops[entry["name"]], 0) + count
        measured = {key: int(record[key]) for key in ("arena_bytes", "weight_bytes")} | {"code_bytes": code_bytes}
        results = []
        for index, (instructions, stack_bytes) in enumerate(plain.runs):
            sizes = measured | {"stack_bytes": stack_bytes}
            traced_run = traced.layers[index * len(record["layers"]) :][: len(record["layers"])]
            total = _unwrapped(instructions, sum(traced_run), self.board.wrap_instructions)
            counts = by_layer if index == 0 else {}
            results.append(RunResult(outputs[index], layers[index] if trace else {}, total, counts, sizes))
        return results


@dataclass(frozen=True)
class _Bench:
    """The programs of one artifact on one board, in the firmware's folder."""

    artifact: Path
    record: Mapping[str, Any]
    firmware: Firmware

    def write_main(self) -> None:
        """The program that feeds the library."""
        prefix = self.record["name"]
        values = {key: self.record[key] for key in ("inputs", "outputs")} | {
            "prefix": prefix,
            "macro": prefix.upper(),
            "regions": self.record.get("regions", []),
            "integers": self.record.get("arithmetic") == "integer",
        }
        text = tidy_source(c_environment("nnkit_ansi_c", "templates"), "board.c.j2", values)
        (self.firmware.folder / "board_main.c").write_text(text, encoding="utf-8")

    def run(self, variant: str, inputs: bytes, timeout_s: float) -> _Measures:
        """Link and run; variant: "plain" or "traced"."""
        defines = (f"-D{self.record['name'].upper()}_TRACE=trace_layer",) if variant == "traced" else ()
        library = [*self._library(defines), self.firmware.object(self.artifact / self.record["weights"])]
        main = self.firmware.object(self.firmware.folder / "board_main.c", defines)
        elf = self.firmware.link(variant, [main, *library])
        work = self.firmware.folder / variant
        work.mkdir(exist_ok=True)
        (work / "inputs.bin").write_bytes(inputs)
        self.firmware.run(elf, work, timeout_s)
        lines = [line.split() for line in (work / "measures.txt").read_text().splitlines()]
        runs = [(int(first), int(second)) for name, first, second in lines if name == "run"]
        return _Measures(runs, [int(second) for name, _, second in lines if name == "layer"])

    def code_bytes(self) -> int:
        """See `BoardRunner`."""
        prefix = self.record["name"]
        return self.firmware.code_bytes((f"{prefix}_init", f"{prefix}_run"), self._library(()))

    def _library(self, defines: tuple[str, ...]) -> list[Path]:
        main, *kernels = self.record["sources"]
        own = self.firmware.object(self.artifact / main, defines)
        return [own, *(self.firmware.object(self.artifact / source) for source in kernels)]


def _unwrapped(count: int, near: int, wrap: int) -> int:
    """What a counter that begins anew at `wrap` shows as `count`, nearest to another count of the same."""
    return count + max(0, round((near - count) / wrap)) * wrap
