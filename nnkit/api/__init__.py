"""nnkit from Python: `run`, `plan`, `load_build`, and what they give. `import nnkit` has these names."""

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
