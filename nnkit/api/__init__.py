"""nnkit from Python: `run`, `plan`, `load_build`, and what they give. `import nnkit` has these names.

Each is imported at first use: `nnkit check` needs none of what builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.first_use import names_at_first_use

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

if not TYPE_CHECKING:  # a checker of types has the imports above, and takes no other name
    __getattr__ = names_at_first_use(
        __name__,
        {
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
        },
    )
