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

VALUES_VARIABLE = "NNKIT_VALUES_GIB"
"""What the values of a network may take in memory while it runs; it counts before the setting `values_gib`."""

USUAL_VALUES_GIB = 2.0

SIZE_VARIABLE = "NNKIT_SIZE_FACTOR"
"""Bounds on networks (`nnkit.trust.bounds`) are multiplied by it; it counts before the setting `size_factor`."""

MOST_SIZE_FACTOR = 10_000.0

_FILE = "config.yaml"
_KEYS = ("programs", "time_factor", "values_gib", "size_factor", "signer")


@dataclass(frozen=True)
class Settings:
    """programs: path by the name under which the program is looked for. time_factor: of every limit of time.
    values_gib: memory for the values of a network that is imported. signer: public key (PEM) that must have signed
    every package that is verified or extracted. size_factor: of every bound on a network's layers, names, windows."""

    programs: Mapping[str, Path] = field(default_factory=dict)
    time_factor: float = 1.0
    values_gib: float = USUAL_VALUES_GIB
    signer: Path | None = None
    size_factor: float = 1.0


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
    if path.exists() or path.is_symlink():  # a link to nothing is no word that nothing is demanded
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
    factor = _number(content, path, "time_factor", TIME_VARIABLE, _FACTOR)
    values_gib = _number(content, path, "values_gib", VALUES_VARIABLE, _GIB)
    size_factor = _number(content, path, "size_factor", SIZE_VARIABLE, _SIZE)
    signer = content.get("signer")
    if "signer" in content and not isinstance(signer, str):
        raise _wrong(path, "signer is not a path")
    key = Path(signer).expanduser() if isinstance(signer, str) else None
    if key is not None and not key.is_absolute():  # a key that lies beside a package would vouch for it
        raise _wrong(path, "the path of signer is not absolute")
    return Settings(paths, factor, values_gib, key, size_factor)


@dataclass(frozen=True)
class _Number:
    """A setting that is a number above 0. usual: without it. what, example: for the error."""

    usual: float
    largest: float
    what: str
    example: str


_FACTOR = _Number(1.0, 10_000.0, "factor for limits of time", "10 on a machine ten times as slow")
_SIZE = _Number(1.0, MOST_SIZE_FACTOR, "factor for bounds on sizes", "4 for a network four times as large")
_GIB = _Number(USUAL_VALUES_GIB, 4096.0, "amount of memory in GiB", "4 for networks on large pictures")


def _number(content: Mapping[Any, Any], path: Path, key: str, variable: str, kind: _Number) -> float:
    """The variable's, or else the setting's."""
    written = os.environ.get(variable)
    value, where = (written, variable) if written else (content.get(key, kind.usual), str(path))
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number <= kind.largest:
        raise UserFileError(
            f"{value!r} is no {kind.what}",
            where=where,
            remedy=f"write a number above 0, at most {kind.largest:,.0f}; {kind.example}",
        )
    return number


def _wrong(path: Path, reason: str) -> UserFileError:
    return UserFileError(
        f"the configuration cannot be used: {reason}",
        where=str(path),
        remedy="write `programs: {NAME: /absolute/path}`, `signer: /absolute/path`, `time_factor`, `values_gib` or "
        "`size_factor`: NUMBER, or remove it",
    )
