"""Where what the compiler reads and makes lies in an artifact, and its description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nnkit.reading import read_json_object

BUILD_FILE = "build.json"
SOURCES, COMPILED, TRACED = "sources", "compiled", "traced"


def read_build(artifact: Path) -> dict[str, Any]:
    """What `emit_artifact` noted. Raises UserFileError where it cannot be read."""
    return read_json_object(artifact / BUILD_FILE, what="the artifact's description", remedy="run `nnkit run` again")
