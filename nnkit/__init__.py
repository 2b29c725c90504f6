"""nnkit: from a trained network to a verified release for an NPU, from one declarative recipe.

`nnkit.run`, `nnkit.plan` and `nnkit.load_build` are the command line's own ways in; `docs/python_api.md` shows them.
They are imported at first use, so that `import nnkit` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnkit import torch
    from nnkit.api import (
        Accuracy,
        ArtifactRun,
        BuildResult,
        Layer,
        MemoryUse,
        Metric,
        Plan,
        PlannedLayer,
        Switches,
        load_build,
        plan,
        run,
    )

__version__ = "0.1.0"
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
    "torch",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        from importlib import import_module

        if name == "torch":
            return import_module("nnkit.torch")
        if name in __all__:
            return getattr(import_module("nnkit.api"), name)
        raise AttributeError(f"module 'nnkit' has no attribute {name!r}")

    def __dir__():
        """What completion offers before anything was used."""
        return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations"})
