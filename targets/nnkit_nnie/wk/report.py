"""What a run says of the networks that the mapper compiled in it: how many of their numbers are the simulation's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.errors import NnkitError
from nnkit.program import Program
from nnkit_nnie.wk.comparison import compare_artifact

_SORTS = ("codes", "biases", "multipliers", "checksums")


def compared_numbers(artifact: Path, program: Program, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of a compiled network's numbers, as `nnkit verify-wk --json` has them; or `not_compared`, the reason.

    entry: of the network in `build.json`. The file was found sound when the mapper ended: what cannot be read of it
    is of a layout that is not known, and no failure of the build.
    """
    try:
        compared = compare_artifact(artifact, program, artifact / entry["folder"] / entry["compiled"]["wk"])
    except NnkitError as error:
        return {"not_compared": error.reason}
    return compared.as_json()


def numbers_in_words(wk: str, numbers: Mapping[str, Any]) -> list[str]:
    """Lines for people. numbers: of `compared_numbers`."""
    if "not_compared" in numbers:
        return [f"{wk:<12} not compared with the simulation: {numbers['not_compared']}"]
    compared = [sort for sort in _SORTS if numbers[sort]]
    sorts = [f"{numbers[f'{sort}_equal']:,} of {numbers[sort]:,} {sort}" for sort in compared]
    ties = sum(numbers[f"{sort}_tied"] for sort in compared)
    tied = f" ({ties} others by the last bit of a float)" if ties else ""
    equal = f"{', '.join(sorts)} equal ours{tied}" if sorts else "nothing could be compared"
    line = f"{wk:<12} {equal}; {numbers['records_unread']:,} records not read"
    return [line, *(f"{'':<12} {note}" for note in numbers["notes"])]
