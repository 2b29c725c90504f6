"""Emulated boards: bare-metal programs for microcontrollers, compiled and run by QEMU, instructions counted."""

from nnkit.boards.board import BOARDS, Board
from nnkit.boards.firmware import Firmware

__all__ = ["BOARDS", "Board", "Firmware"]
