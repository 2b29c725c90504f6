"""An exported network: its file and its inputs. Knows nothing of torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Exported:
    """A network as a file. inputs: their names; beside the network `<input>_<number>.npy` are to calibrate on,
    `verify_<input>_<number>.npy` to verify on."""

    path: Path
    inputs: tuple[str, ...]
