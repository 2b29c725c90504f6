"""Finished builds: their folders opened, and two of them compared."""

from nnkit.builds.folder import BuiltFolder, open_build
from nnkit.builds.origin import check_origin, computing_with

__all__ = ["BuiltFolder", "check_origin", "computing_with", "open_build"]
