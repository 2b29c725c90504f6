"""Finished builds: their folders opened, and two of them compared."""

from nnkit.builds.folder import BuiltFolder, open_build

__all__ = ["BuiltFolder", "open_build"]
