"""The external programs of the nnie target: where they are, and how to get them."""

from __future__ import annotations

from nnkit.c.host_compiler import host_compiler_tool
from nnkit.children.search import found_program
from nnkit.target import Tool
from nnkit_nnie.chips import CHIPS

_MAPPER_SOURCE = "part of the vendor's SDK for the chip; not to be downloaded freely"


def found_tools() -> tuple[Tool, ...]:
    """All tools with their path; a missing one says how to get it."""
    mappers = {chip.mapper: chip.generation for chip in CHIPS.values()}
    return (
        *(
            # The mapper has no option that prints its version, and running it without a cfg is an error.
            Tool(name, f"compiles networks for NNIE {generation}", found_program(name), "", _MAPPER_SOURCE)
            for name, generation in sorted(mappers.items())
        ),
        host_compiler_tool("runs the C of CPU segments on this machine"),
    )
