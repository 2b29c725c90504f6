"""The one error hierarchy: every error a user can meet has a place, a reason, a remedy and an exit code."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from nnkit.visible import Visible, visible, visible_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


class ExitCode(IntEnum):
    """Exit codes of the command line; `docs/exit_codes.md` is the page for users."""

    OK = 0
    GATE_FAILED = 1
    USER = 2
    MODEL = 3
    MEMORY = 4
    TOOL = 5
    UNPROVEN = 6
    INTERNAL = 70
    INTERRUPTED = 130


_FROM_GOOD_TO_BAD = (
    ExitCode.OK,
    ExitCode.UNPROVEN,
    ExitCode.GATE_FAILED,
    ExitCode.MEMORY,
    ExitCode.MODEL,
    ExitCode.TOOL,
    ExitCode.USER,
    ExitCode.INTERNAL,
    ExitCode.INTERRUPTED,
)
"""The further a build is from a release, the worse."""


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of several builds or checks together."""
    return max(codes, key=_FROM_GOOD_TO_BAD.index, default=ExitCode.OK)


class NnkitError(Exception):
    """Base of all errors meant for users.

    Args:
        reason: what is wrong, one sentence, no final newline.
        where: the place: `file:line:column`, a file, or a layer's name. May be empty.
        remedy: what the user can do about it. May be empty only where nothing can be said.
    """

    exit_code: ExitCode = ExitCode.INTERNAL
    code: str = "NK700"
    """The number by which `nnkit explain` looks the error up; `nnkit.error_codes` holds the texts."""

    def __init__(self, reason: str, *, where: str = "", remedy: str = "") -> None:
        self.reason = visible(reason)
        super().__init__(self.reason)
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{visible(self.where)}: " if self.where else ""
        remedy = f"\n  fix: {visible(self.remedy)}" if self.remedy else ""
        return Visible(f"{place}{self.reason}{remedy}")


class RecipeError(NnkitError):
    """The recipe is wrong: syntax, an unknown key, a bad value, a glob that matches nothing."""

    exit_code = ExitCode.USER
    code = "NK201"


class UsageError(NnkitError):
    """The command line is wrong, or names something that does not exist."""

    exit_code = ExitCode.USER
    code = "NK211"


class UserFileError(NnkitError):
    """A file or folder of the user's: unreadable image, missing file, unwritable output."""

    exit_code = ExitCode.USER
    code = "NK221"


class ModelError(NnkitError):
    """The model file is broken or cannot be deployed on the target."""

    exit_code = ExitCode.MODEL
    code = "NK301"


class LayersNotTakenError(ModelError):
    """Layers of the network that the hardware cannot run, all of them; `layers` has their names."""

    code = "NK304"

    def __init__(self, reason: str, layers: Sequence[str], *, remedy: str = "") -> None:
        super().__init__(reason, remedy=remedy)
        self.layers = tuple(dict.fromkeys(layers))


class DoesNotFitError(NnkitError):
    """The program does not fit a memory region, or a weight budget."""

    exit_code = ExitCode.MEMORY
    code = "NK401"


class ToolError(NnkitError):
    """A compiler, emulator or vendor tool is missing or failed."""

    exit_code = ExitCode.TOOL
    code = "NK501"


class GateFailedError(NnkitError):
    """A gate of the recipe failed, or an artifact disagrees with its Program."""

    exit_code = ExitCode.GATE_FAILED
    code = "NK101"


class UnprovenError(NnkitError):
    """A build was made and packed, but nothing could run its artifact."""

    exit_code = ExitCode.UNPROVEN
    code = "NK601"


class InternalError(NnkitError):
    """A bug of ours: an invariant does not hold."""

    exit_code = ExitCode.INTERNAL
    code = "NK700"


class SeveralError(NnkitError):
    """Several things are wrong.

    exit_code: by default that of the first, which is what a run would have met.
    """

    code = "NK100"

    def __init__(self, errors: Sequence[NnkitError], *, where: str, exit_code: ExitCode | None = None) -> None:
        self.errors = tuple(errors)
        lines = "".join("\n  " + visible_item(str(error)).replace("\n", "\n  ") for error in self.errors)
        super().__init__(Visible(f"{len(self.errors)} things are wrong{lines}"), where=where)
        self.exit_code = self.errors[0].exit_code if exit_code is None else exit_code


def raise_found(errors: Sequence[NnkitError], *, where: str, exit_code: ExitCode | None = None) -> None:
    """Raise what is wrong: the only error itself, several as SeveralError; nothing where there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SeveralError(errors, where=where, exit_code=exit_code)


class BuildsFailedError(NnkitError):
    """Some of several builds failed: `texts` has the build and the reason of each. The exit code is the worst."""

    code = "NK102"

    def __init__(self, texts: Sequence[str], codes: Iterable[ExitCode], *, remedy: str = "") -> None:
        super().__init__(Visible("\n".join(map(visible, texts))), remedy=remedy)
        self.exit_code = worst(codes)


def name_builds(refused: Mapping[str, NnkitError], tried: int) -> None:
    """Write into each error that names no place the builds that it is of, by key; not where it is of all.

    tried: how many builds there were.
    """
    same: dict[str, list[str]] = {}
    for key, error in refused.items():
        same.setdefault(str(error), []).append(key)
    for keys in same.values():
        for error in (refused[key] for key in keys):
            if not error.where and len(keys) < tried:
                error.where = ", ".join(keys)


def raise_failed(failed: Mapping[str, NnkitError], tried: int, bug: Exception | None = None) -> None:
    """Raise the errors of those of several builds that failed, by key; none where there are none.

    tried: how many builds there were. bug: the first exception that was no NnkitError, for the traceback.
    """
    if failed and tried == 1:
        raise next(iter(failed.values()))
    if failed:
        done = "; the others are done" if len(failed) < tried else ""
        texts = [Visible(f"{key}: {str(error).removeprefix(f'{key}: ')}") for key, error in failed.items()]
        raise BuildsFailedError(
            [f"{len(failed)} of {tried} builds did not pass{done}", *texts],
            [error.exit_code for error in failed.values()],
            remedy="mend them one at a time, with --target NAME",
        ) from bug


def cannot_be_written(path: Path, error: OSError, what: str = "") -> UserFileError:
    """The error of a file or folder that cannot be written; `what` says what it was to hold."""
    return UserFileError(
        f"{what} cannot be written: {error.strerror or error}".lstrip(),
        where=str(path),
        remedy="choose a folder that you may write to and that has room",
    )
