"""C files that are the same for every network, and the ports, whose templates know its names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from nnkit.boards.board import SEMIHOSTING
from nnkit.c.fixed.catalogue import TASK_HEADER, task_header
from nnkit.c.sources import TYPES_HEADER, types_header
from nnkit.generated import packaged_text

if TYPE_CHECKING:
    from jinja2 import Environment

_PORT_HEADER = "nnkit_port.h"
_BOTH_SCHEMES = ("nnkit_dma.h", "nnkit_packed.h", "nnkit_packed_xpulp.h")
_CLUSTER = (*_BOTH_SCHEMES, "nnkit_tiles.c", "nnkit_tiles.h")
_AFFINE_CLUSTER = ("nnkit_affine_packed.h", "nnkit_affine_tiles.c", "nnkit_affine_tiles.h")
_FOLDERS = ("host", "rv32", "pmsis")
_CLUSTER_FOLDERS = ("host", "pulp", "rv32")


def cluster_files() -> dict[str, bytes]:
    """What a build in tiles has beside its kernels; the same for every network."""
    root = resources.files("nnkit_gap8") / "c" / "cluster"
    return {name: (root / name).read_bytes() for name in _CLUSTER}


def affine_tile_files() -> dict[str, bytes]:
    """What a build of the affine scheme in tiles has beside its kernels; the same for every network."""
    root = resources.files("nnkit_gap8") / "c"
    tiles = root / "affine" / "cluster"
    files = {name: (tiles / name).read_bytes() for name in _AFFINE_CLUSTER}
    return files | {name: (root / "cluster" / name).read_bytes() for name in _BOTH_SCHEMES}


def shared_files(env: Environment, values: Mapping[str, Any]) -> dict[str, bytes]:
    """Files that are the same for every network, and the ports, whose templates (`*.j2`) know its names."""
    root = resources.files("nnkit_gap8") / "c"
    files = {
        _PORT_HEADER: (root / _PORT_HEADER).read_bytes(),
        TASK_HEADER: task_header().encode(),
        TYPES_HEADER: types_header().encode(),
    }
    files |= {f"rv32/{name}": packaged_text("nnkit", "boards", "c", name).encode() for name in SEMIHOSTING}
    folders = [(folder, root / folder) for folder in _FOLDERS]
    if values["cluster"]:
        # A port's files for the cluster stand beside the others, or in place of those of the same name.
        folders += [(folder, root / "cluster" / folder) for folder in _CLUSTER_FOLDERS]
    if values["affine"]:
        folders.append(("rv32", root / "affine" / "rv32"))
    for folder, place in folders:
        for entry in sorted(place.iterdir(), key=lambda item: item.name):
            if entry.name.endswith(".j2"):
                text = env.from_string(entry.read_text(encoding="utf-8")).render(values)
                files[f"{folder}/{entry.name[:-3]}"] = text.encode()
            else:
                files[f"{folder}/{entry.name}"] = entry.read_bytes()
    return files
