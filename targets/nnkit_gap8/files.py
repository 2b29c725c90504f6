"""The package's fixed C files, and its templates rendered."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_FIXED = ("nnkit_task.h", "nnkit_port.h")
_FOLDERS = ("host", "rv32", "pmsis")


def render(env: Environment, template: str, values: Mapping[str, Any]) -> bytes:
    """A template's text, without trailing blanks or doubled empty lines."""
    lines: list[str] = []
    for line in env.get_template(template).render(values).split("\n"):
        text = line.rstrip()
        if text or (lines and lines[-1]):
            lines.append(text)
    return ("\n".join(lines).strip("\n") + "\n").encode()


def shared_files(env: Environment, values: Mapping[str, Any]) -> dict[str, bytes]:
    """Files that are the same for every network, and the ports, whose templates (`*.j2`) know its names."""
    root = resources.files("nnkit_gap8") / "c"
    files = {name: (root / name).read_bytes() for name in _FIXED}
    files["nnkit_types.h"] = (resources.files("nnkit") / "emit" / "c" / "nnkit_types.h").read_bytes()
    for folder in _FOLDERS:
        for entry in sorted((root / folder).iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".j2"):
                text = env.from_string(entry.read_text(encoding="utf-8")).render(values)
                files[f"{folder}/{entry.name[:-3]}"] = text.encode()
            else:
                files[f"{folder}/{entry.name}"] = entry.read_bytes()
    return files
