"""Entries of the stage cache, damaged or exchanged; then a dry run, which gives what it gives without a cache."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz.builds import small_build, write_project
from fuzz.damage import damaged_bytes


@dataclass(frozen=True)
class Seeds:
    """folder: of a project, with the cache that a run left. digest: of the program that it makes."""

    folder: Path
    digest: str


def seeds(folder: Path) -> Seeds:
    """A project and the cache that a dry run of it left."""
    from nnkit import pipeline
    from nnkit.cache import StageCache

    write_project(folder)
    return Seeds(folder, pipeline.preview(small_build(folder, StageCache(folder / "cache"))).program.digest)


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One to three damaged entries under a dry run."""
    from nnkit import pipeline
    from nnkit.cache import StageCache

    shutil.copytree(given.folder / "cache", folder / "cache")
    entries = sorted((folder / "cache").glob("*/*.entry"))
    for entry in chance.sample(entries, min(len(entries), chance.choice((1, 1, 3)))):
        kind = chance.randrange(8)
        data = chance.choice([each for each in entries if each.is_file()]).read_bytes()
        if kind == 0:
            entry.unlink()
            entry.mkdir()
        else:
            entry.write_bytes(data if kind == 1 else damaged_bytes(data, chance))
    program = pipeline.preview(small_build(given.folder, StageCache(folder / "cache"))).program
    if program.digest != given.digest:
        raise AssertionError("a damaged cache changed the program")
