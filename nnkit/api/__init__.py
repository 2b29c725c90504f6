"""nn

Each is imported at first use: `nnkit check` needs none of what builds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnkit.api.building import run
    from nnkit.api.opening import load_build
    from nnkit.api.planning import plan
    from nnkit.api.preparing import Switches
    from nnkit.api.results import Accuracy, ArtifactRun, BuildResult, Layer, MemoryUse, Metric, Plan, PlannedLayer

__all__ = [
    "Accuracy",
    "ArtifactRun",
    "BuildResult",
    "Layer",
    "MemoryUse",
    "Metric",
    "Plan",
    "PlannedLayer",
    "Switches",
    "load_build",
    "plan",
    "run",
]

_HOME = {
    "building": ("run",),
    "opening": ("load_build",),
    "planning": ("plan",),
    "preparing": ("Switches",),
    "results": (
        "Accuracy",
        "ArtifactRun",
        "BuildResult",
        "Layer",
        "MemoryUse",
        "Metric",
        "Plan",
        "PlannedLayer",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
