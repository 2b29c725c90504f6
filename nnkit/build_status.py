"""How a build ended: the `status` of its report, what is released, and the exit code."""

from __future__ import annotations

from typing import Literal, TypeAlias

from nnkit.errors import ExitCode

Status: TypeAlias = Literal["ok", "unproven", "gate_failed", "mismatch"]
"""`unproven`: nothing has computed what the artifact computes. `mismatch`: it disagrees with the Program."""

RELEASED: tuple[Status, ...] = ("ok", "unproven")
"""Builds that take the place of the last good one and are packed; the package says which of the two it is."""

_EXIT_CODES: dict[Status, ExitCode] = {"ok": ExitCode.OK, "unproven": ExitCode.UNPROVEN}


def exit_code(status: Status) -> ExitCode:
    """What `nnkit run` ends with."""
    return _EXIT_CODES.get(status, ExitCode.GATE_FAILED)
