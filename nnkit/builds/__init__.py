"""Finished builds: their folders opened, and two of them compared."""

from nnkit.builds.folder import BuiltFolder, open_build
from nnkit.builds.origin import check_origin

__all__ = ["BuiltFolder", "check_origin", "open_build"]
