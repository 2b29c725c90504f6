"""Compiles an emitted segment with the compiler of this machine and runs it on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.float.custom import PREFIX
from nnkit.c.host_compiler import needed_compiler
from nnkit.cpu_segments.emit import Port, render
from nnkit.errors import ToolError, UsageError
from nnkit.external_tool import run_tool
from nnkit.owned_folder import temporary_folder
from nnkit.reading import read_json_object

FLAGS = ("-std=c90", "-pedantic-errors", "-Wconversion", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
SANITIZERS = ("-O0", "-g", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all")
_TIMEOUT_S = 600


def run_segment(
    folder: Path,
    name: str,
    inputs: Mapping[str, NDArray[Any]],
    *,
    compiler: str | None = None,
    sanitize: bool = False,
) -> dict[str, NDArray[np.float32]]:
    """Outputs of the segment `name` in `folder` by ONNX name, shapes as in the graph.

    inputs: an array for every input by its ONNX name. compiler: C compiler; None: `CC`, or cc, gcc or clang on PATH.
    sanitize: under the address and undefined-behaviour sanitizers, which end the run at the first fault.

    Raises:
        UserFileError: there is no such segment in the folder.
        UsageError: an input is missing or has another size.
        ToolError: there is no compiler, it refuses the sources, or the program fails.
    """
    program = CompiledSegment(folder, name, compiler=compiler, sanitize=sanitize)
    try:
        return program.run(inputs)
    finally:
        program.close()


class CompiledSegment:
    """A compiled segment, for several runs; `close` removes the program. Arguments and errors as `run_segment`."""

    def __init__(self, folder: Path, name: str, *, compiler: str | None = None, sanitize: bool = False) -> None:
        self.name = name
        remedy = "give the folder of the emitted sources"
        record = read_json_object(folder / f"{name}.json", what=f"the CPU segment '{name}'", remedy=remedy)
        self.inputs, self.outputs = _ports(record["inputs"]), _ports(record["outputs"])
        self._remedy = _remedy(sorted(folder.glob(f"nnkit_{PREFIX}*.c")))
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(temporary_folder("nnkit-segment-"))
        try:
            self._program = self._compile(folder.absolute(), needed_compiler(compiler), sanitize)
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
        """One run; raises UsageError and ToolError as `run_segment`."""
        given = [_values(port, inputs) for port in self.inputs]
        source, target = self._folder / "inputs.bin", self._folder / "outputs.bin"
        source.write_bytes(b"".join(array.tobytes() for array in given))
        command = [str(self._program), str(source), str(target)]
        _execute(command, f"the CPU segment '{self.name}' failed", self._remedy)
        values = np.frombuffer(target.read_bytes(), np.float32)
        results, start = {}, 0
        for port in self.outputs:
            results[port.name] = values[start : start + port.count].reshape(port.shape)
            start += port.count
        return results

    def close(self) -> None:
        """Remove the compiled program."""
        self._stack.close()

    def _compile(self, folder: Path, compiler: str, sanitize: bool) -> Path:
        values = {"name": self.name, "inputs": self.inputs, "outputs": self.outputs}
        main = self._folder / "main.c"
        main.write_text(render("main.c.j2", values), encoding="utf-8")
        sources = [main, folder / f"{self.name}.c", *sorted(folder.glob("nnkit_*.c"))]
        program = self._folder / "segment"
        flags = [*FLAGS, *(SANITIZERS if sanitize else ())]
        command = [compiler, *flags, f"-I{folder}", *map(str, sources), "-o", str(program), "-lm"]
        _execute(command, f"the C compiler refuses the CPU segment '{self.name}'", self._remedy)
        return program


def _remedy(own: Sequence[Path]) -> str:
    """What to do where a segment fails. own: the sources of it that are the user's."""
    fault = "this is a fault of nnkit or of the compiler: please report it with the emitted sources"
    if not own:
        return fault
    names = ", ".join(path.name for path in own)
    return (
        f"look first at the C of your own layer, which is {names} here: it is compiled as C90, every warning an "
        f"error, and has to define the function that model.custom_layers names; if it is not that, {fault}"
    )


def _execute(command: Sequence[str], failure: str, remedy: str) -> None:
    run = run_tool(command, timeout_s=_TIMEOUT_S, name=f"{failure}: it", remedy=remedy)
    if run.failed:
        lines = run.errors.strip().splitlines()
        telling = [line for line in lines if any(word in line.lower() for word in ("undefined reference", "error"))]
        reason = (telling or lines or ["no message"])[0]
        raise ToolError(f"{failure} (it {run.ending}): {reason}", where=command[0], remedy=remedy)


def _ports(records: Sequence[dict[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(r["name"], r["pointer"], tuple(r["shape"]), r["count"]) for r in records)


def _values(port: Port, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    if port.name not in inputs:
        raise UsageError(f"no values for input '{port.name}'", remedy=f"give an array of shape {list(port.shape)}")
    array = np.ascontiguousarray(inputs[port.name], np.float32)
    if array.size != port.count:
        raise UsageError(
            f"input '{port.name}' has {array.size} values", remedy=f"the segment takes {list(port.shape)}"
        )
    return array
