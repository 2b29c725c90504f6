"""A recipe that knows where its values were written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import PrivateAttr

from nnkit.recipe.base import RecipeModel
from nnkit.recipe.problems import KeyPath, Place


class Placed(RecipeModel):
    """The file of a recipe, its fragments, settings given beside it, and the place of every value; filled by the
    loader."""

    _places: Mapping[KeyPath, Place] = PrivateAttr(default_factory=dict)
    _file: str = PrivateAttr(default="")
    _sources: tuple[Path, ...] = PrivateAttr(default=())
    _settings: tuple[str, ...] = PrivateAttr(default=())

    @property
    def file(self) -> str:
        """The recipe file as named by the user."""
        return self._file

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that the recipe was read from: the recipe first, then its fragments."""
        return self._sources

    @property
    def settings(self) -> tuple[str, ...]:
        """`KEY=VALUE` of everything that was set beside the file."""
        return self._settings

    def where(self, *path: str | int) -> str:
        """`file:line:column` of a value, e.g. `where("tags", "hp", 0)`; of its nearest parent if not written."""
        place = self.place(*path)
        return self._file if place is None else str(place)

    def place(self, *path: str | int) -> Place | None:
        """The place of a value; of its nearest parent if not written; None for a recipe that was in no file."""
        ways = (path[:end] for end in range(len(path), -1, -1))
        return next((place for way in ways if (place := self._places.get(way))), None)
