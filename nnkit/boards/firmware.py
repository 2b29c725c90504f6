"""A bare-metal program for a board: compiled, linked, measured, run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnkit.boards.board import SEMIHOSTING, Board
from nnkit.boards.tools import require, run_in
from nnkit.generated import packaged_text, write_sources

_HEADER = "nnkit_board.h"
_COMPILE_TIMEOUT_S = 300.0
_CODE_SECTIONS = (".text", ".rodata", ".data", ".srodata", ".sdata")


@dataclass(frozen=True, eq=False)
class Firmware:
    """Object files and programs of one artifact in `folder`; each source is compiled once for each set of defines.

    flags: of the compiler, beside the board's. includes: folders with headers.
    """

    board: Board
    folder: Path
    flags: tuple[str, ...]
    includes: tuple[Path, ...]
    _objects: dict[tuple[Path, tuple[str, ...]], Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {_HEADER, self.board.script, *self.board.sources, *SEMIHOSTING}
        write_sources(self.folder, {name: packaged_text("nnkit", "boards", "c", name) for name in names})

    def object(self, source: Path, defines: tuple[str, ...] = ()) -> Path:
        """The compiled object of a source. Raises ToolError."""
        key = (source, defines)
        if key not in self._objects:
            variant = self.folder / f"variant{len({each[1] for each in (*self._objects, key)})}"
            variant.mkdir(exist_ok=True)
            place = variant / f"{source.stem}.o"
            includes = [f"-I{path}" for path in (self.folder, *self.includes)]
            command = [
                require(self.board.compiler),
                *self.board.flags,
                *self.board.specs,
                *self.flags,
                *defines,
                *includes,
            ]
            run_in(source.parent, [*command, "-c", "-o", str(place), str(source)], _COMPILE_TIMEOUT_S)
            self._objects[key] = place
        return self._objects[key]

    def link(self, name: str, objects: Sequence[Path]) -> Path:
        """A program of these objects, one of which has `nnkit_board_main`. Raises ToolError where it does not fit."""
        board = self.board
        own = [self.object(self.folder / source) for source in board.sources]
        elf = self.folder / f"{name}.elf"
        command = [
            require(board.compiler),
            *board.flags,
            *board.specs,
            "-nostartfiles",
            "-Wl,--gc-sections,--no-warn-rwx-segments",
        ]
        command += ["-T", str(self.folder / board.script), "-o", str(elf)]
        run_in(self.folder, [*command, *map(str, [*own, *objects]), *board.libraries], _COMPILE_TIMEOUT_S)
        return elf

    def code_bytes(self, roots: Sequence[str], objects: Sequence[Path]) -> int:
        """Instructions and constants of objects without what the functions `roots` do not reach, and no library."""
        joined = self.folder / "joined.o"
        command = [require(self.board.compiler), *self.board.flags, "-r", "-nostdlib", "-Wl,--gc-sections"]
        command += [f"-Wl,-u,{root}" for root in roots]
        run_in(self.folder, [*command, "-o", str(joined), *map(str, objects)], _COMPILE_TIMEOUT_S)
        table = run_in(self.folder, [require(self.board.size), "-A", str(joined)], _COMPILE_TIMEOUT_S)
        lines = [line.split() for line in table.splitlines()]
        return sum(int(line[1]) for line in lines if len(line) == 3 and line[0].startswith(_CODE_SECTIONS))

    def run(self, elf: Path, work: Path, timeout_s: float) -> str:
        """Run a program whose files are in `work`; what it prints. Raises ToolError where it ends with a failure."""
        return run_in(work, self.board.emulation(str(elf)), timeout_s)
