"""The ansi_c target: any network as a small C90 library, all memory planned."""

from nnkit_ansi_c.target import AnsiCTarget

TARGET = AnsiCTarget
