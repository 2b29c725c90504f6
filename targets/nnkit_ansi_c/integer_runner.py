"""Compiles an integer library as strict C90 with the compiler of this machine and compares it value by value."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from nnkit.c.host_compiler import host_compiler
from nnkit.c.sources import c_environment, tidy_source
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool
from nnkit.owned_folder import temporary_folder
from nnkit.program import Program
from nnkit.target import Contract, RunResult
from nnkit_ansi_c.runner import REMEDY, STRICT, TIMEOUT_S, described, input_bytes, split_values


@dataclass(frozen=True)
class IntegerHostRunner:
    """Runs the artifact on this machine. compiler: None takes `CC`, or cc, gcc or clang on PATH."""

    compiler: str | None = None
    flags: tuple[str, ...] = ("-O2",)
    name: str = "host"
    contract: Contract = "exact"
    emulated: bool = False
    layer_by_layer: Literal[True] = True

    def missing(self) -> str | None:
        """None where there is a C compiler."""
        return None if self._path() else "no C compiler (install gcc or clang, or set CC)"

    def bound(self, program: Program, tensor: str) -> float:
        """Nothing may differ."""
        return 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs. Raises ToolError where the compiler or the library fails."""
        record = described(artifact)
        with temporary_folder("nnkit-ansi-c-") as folder:
            binary = self.compile(artifact, folder, trace=trace)
            (folder / "inputs.bin").write_bytes(input_bytes(record, program, inputs))
            command = [str(binary), "inputs.bin", "outputs.bin", *(["layers.bin"] if trace else [])]
            run_tool(command, timeout_s=TIMEOUT_S, folder=folder, name="the library", remedy=REMEDY).checked(
                "the library", remedy=REMEDY
            )
            outputs = split_values(folder / "outputs.bin", record["outputs"], program, len(inputs))
            layers = split_values(folder / "layers.bin", record["layers"], program, len(inputs)) if trace else []
        tensors = layers or [{} for _ in inputs]
        return [RunResult(results, traced) for results, traced in zip(outputs, tensors, strict=True)]

    def compile(self, artifact: Path, folder: Path, *, trace: bool = False) -> Path:
        """The library with a program around it that reads and writes stored integers. Raises ToolError."""
        compiler = self._path()
        if compiler is None:
            raise ToolError("no C compiler was found", remedy="install gcc or clang, or set CC")
        record = described(artifact)
        check = folder / "check.c"
        check.write_text(check_source(record), encoding="utf-8")
        binary, artifact = folder / "network", artifact.resolve()
        sources = [str(artifact / file) for file in (*record["sources"], record["weights"])]
        traced = [f"-D{record['name'].upper()}_TRACE=trace_layer"] if trace else []
        flags = [*STRICT, *self.flags, *traced, f"-I{artifact}"]
        command = [compiler, *flags, "-o", str(binary.resolve()), *sources, str(check.resolve())]
        run = run_tool(command, timeout_s=TIMEOUT_S, folder=artifact, name="the C compiler", remedy=REMEDY)
        run.checked("the C compiler", remedy=REMEDY)
        return binary

    def _path(self) -> str | None:
        return shutil.which(self.compiler) if self.compiler else host_compiler()


def check_source(record: Mapping[str, Any]) -> str:
    """The C of the program around the library. record: the artifact's description."""
    values = {
        "prefix": record["name"],
        "macro": record["name"].upper(),
        "inputs": record["inputs"],
        "outputs": record["outputs"],
    }
    return tidy_source(c_environment("nnkit_ansi_c", "templates"), "integer_check.c.j2", values)
