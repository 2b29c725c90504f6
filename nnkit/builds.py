"""Build folders, as `nnkit run` leaves them: opened for whoever works with a finished build."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import UserFileError

if TYPE_CHECKING:
    from nnkit.program import Program


@dataclass(frozen=True, eq=False)
class BuiltFolder:
    """A build folder as a run left it."""

    folder: Path
    report: dict[str, Any]
    program: Program


def open_build(folder: Path) -> BuiltFolder:
    """Read a build folder. Raises UserFileError where it is not one."""
    from nnkit.serialize import decode
    from nnkit.target import load_target, plugin_name

    remedy = "name a folder that `nnkit run` made: out/<name>/<target>"
    if not folder.is_dir():
        raise UserFileError("no such build folder", where=str(folder), remedy=remedy)
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        classes = load_target(plugin_name(str(report["target"]))).program_classes
        program: Program = decode((folder / "program.nnkit").read_bytes(), classes)
    except FileNotFoundError as error:
        name = Path(str(error.filename)).name
        raise UserFileError(f"not a build: it has no {name}", where=str(folder), remedy=remedy) from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserFileError(
            f"this build is damaged: {error}", where=str(folder), remedy="build it again with `nnkit run`"
        ) from error
    return BuiltFolder(folder, report, program)
