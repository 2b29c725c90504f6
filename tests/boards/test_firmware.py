"""Emulated boards: instructions counted to the last, values through files, stack, code, faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.boards import BOARDS, Board, Firmware
from nnkit.errors import ToolError

# A thousand instructions between two reads of the counter, files there and back, 4000 bytes of stack.
PROGRAM = """
#include "nnkit_board.h"

static int deep(int file)
{
    volatile uint8_t bytes[4000];
    bytes[0] = (uint8_t)nnkit_board_read(file, (void *)(bytes + 1), 8);
    return bytes[8];
}

int nnkit_board_main(void)
{
    const int source = nnkit_board_open("in.bin", 0), target = nnkit_board_open("out.txt", 1);
    uint32_t start, empty, full;
    int last;
    start = nnkit_board_counter();
    empty = nnkit_board_instructions(start);
    start = nnkit_board_counter();
    __asm__ volatile(".rept 1000\\n nop\\n .endr");
    full = nnkit_board_instructions(start);
    nnkit_board_line(target, "nops", full - empty, 0);
    nnkit_board_paint_stack();
    last = deep(source);
    nnkit_board_line(target, "stack", nnkit_board_painted_over(), (uint32_t)last);
    if (last == 9) *(volatile int *)FAULT = 1;
    return last == 7 ? 0 : 3;
}
"""
FAULTS = {"cortex-m4": "0xD0000000", "cortex-m7": "0xD0000000", "rv32imac": "0x10"}


def firmware(board: Board, folder: Path) -> Path:
    """The program, compiled in `folder`."""
    missing = board.missing()
    if missing is not None:
        pytest.skip(missing)
    source = folder / "main.c"
    source.write_text(PROGRAM)
    made = Firmware(board, folder / "made", ("-O1", f"-DFAULT={FAULTS[board.name]}"), ())
    return made.link("program", [made.object(source)])


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_instructions_files_and_stack(board: Board, tmp_path: Path) -> None:
    elf = firmware(board, tmp_path)
    made = Firmware(board, tmp_path / "made", (), ())
    (tmp_path / "in.bin").write_bytes(bytes(range(8)))
    made.run(elf, tmp_path, 60)
    (_, nops, _), (_, stack, last) = (line.split() for line in (tmp_path / "out.txt").read_text().splitlines())
    assert abs(int(nops) - 1000) <= 1
    assert 4000 <= int(stack) < 4400
    assert last == "7"


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_failures_and_faults_are_told(board: Board, tmp_path: Path) -> None:
    elf = firmware(board, tmp_path)
    made = Firmware(board, tmp_path / "made", (), ())
    (tmp_path / "in.bin").write_bytes(bytes([1] * 8))
    with pytest.raises(ToolError, match="ended with code 3"):
        made.run(elf, tmp_path, 60)
    (tmp_path / "in.bin").write_bytes(bytes([9] * 8))
    with pytest.raises(ToolError, match="fault at instruction"):
        made.run(elf, tmp_path, 60)
