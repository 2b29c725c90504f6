"""The user's own settings: `config.yaml` in the configuration folder; nothing of recipes and packages gets there."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnkit.errors import UserFileError
from nnkit.reading import read_yaml

CONFIG_VARIABLE = "NNKIT_CONFIG"
"""Names another configuration folder."""

TIME_VARIABLE = "NNKIT_TIME_FACTOR"
"""Every limit of time is multiplied by it; it counts before the setting `time_factor`."""

_FILE = "config.yaml"
_KEYS = ("programs", "time_factor", "signer")
_LARGEST_FACTOR = 10_000.0


@dataclass(frozen=True)
class Settings:
    """programs: path by the name under which the program is looked for. time_factor: of every limit of time. signer:
    public key (PEM) that must have signed every package that is verified or extracted."""

    programs: Mapping[str, Path] = field(default_factory=dict)
    time_factor: float = 1.0
    signer: Path | None = None


def config_folder() -> Path:
    """`NNKIT_CONFIG`, or `nnkit` in the user's configuration folder (`XDG_CONFIG_HOME`, `~/.config`)."""
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path(os.path.expanduser("~")) / ".config"
    return base / "nnkit"


def user_settings() -> Settings:
    """The settings as they are now; the defaults where there is no file.

    Raises UserFileError for a file that cannot be read, an unknown key, or a value of another kind.
    """
    path = config_folder() / _FILE
    content: Any = None
    if path.exists():
        content = read_yaml(path, what="the configuration", remedy="docs/threat_model.md says what it may hold")
    if content is None:
        content = {}
    if not isinstance(content, dict) or not set(content) <= set(_KEYS):
        odd = ", ".join(str(key) for key in content if key not in _KEYS) if isinstance(content, dict) else "no keys"
        raise _wrong(path, f"it may hold {' and '.join(_KEYS)}, but has {odd}")
    programs = content.get("programs") or {}
    if not isinstance(programs, dict) or not all(
        isinstance(name, str) and isinstance(program, str) for name, program in programs.items()
    ):
        raise _wrong(path, "programs is not a section of names and paths")
    paths = {name: Path(program).expanduser() for name, program in programs.items()}
    relative = [name for name, program in paths.items() if not program.is_absolute()]
    if relative:
        raise _wrong(path, f"the path of {relative[0]} is not absolute")
    written = os.environ.get(TIME_VARIABLE)
    factor, place = (content.get("time_factor", 1.0), str(path)) if not written else (written, TIME_VARIABLE)
    signer = content.get("signer")
    if signer is not None and not isinstance(signer, str):
        raise _wrong(path, "signer is not a path")
    return Settings(paths, _factor(factor, place), None if signer is None else Path(signer).expanduser())


def _factor(value: Any, where: str) -> float:
    try:
        factor = float(value)
    except (TypeError, ValueError):
        factor = math.nan
    if not 0.0 < factor <= _LARGEST_FACTOR:
        raise UserFileError(
            f"{value!r} is no factor for limits of time",
            where=where,
            remedy=f"write a number above 0, at most {_LARGEST_FACTOR:,.0f}; 10 on a machine ten times as slow",
        )
    return factor


def _wrong(path: Path, reason: str) -> UserFileError:
    return UserFileError(
        f"the configuration cannot be used: {reason}",
        where=str(path),
        remedy="write `programs: {NAME: /absolute/path}` and `time_factor: NUMBER`, or remove it",
    )
