"""Values of many samples with bounded memory: what exceeds a budget is kept in files of a temporary folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UserFileError
from nnkit.owned_folder import temporary_folder

DEFAULT_BYTES = 256 << 20


class Spool:
    """Arrays by value name and part of the samples. A context manager: the folder goes with it.

    budget_bytes: kept in memory at most; arrays that come when it is used up go to files, which changes no result.
    """

    def __init__(self, budget_bytes: int = DEFAULT_BYTES) -> None:
        self._budget = budget_bytes
        self._held: dict[tuple[str, int], NDArray[Any]] = {}
        self._files: dict[tuple[str, int], Path] = {}
        self._bytes = 0
        self._count = 0
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.clear()
        self._stack.close()

    @property
    def held_bytes(self) -> int:
        """Bytes in memory."""
        return self._bytes

    def put(self, name: str, part: int, values: NDArray[Any]) -> None:
        """Keep an array; one of the same name and part is replaced.

        Raises UserFileError where the temporary folder is full.
        """
        self.drop(name, part)
        if self._bytes + values.nbytes <= self._budget:
            self._held[name, part] = values
            self._bytes += values.nbytes
            return
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary_folder("nnkit-spool-"))
        self._count += 1
        path = self._folder / f"{self._count}.npy"
        try:
            np.save(path, values, allow_pickle=False)
        except OSError as error:
            raise UserFileError(
                f"values of the calibration images cannot be kept: {error.strerror or error}",
                where=str(path.parent),
                remedy="free space there, set TMPDIR to a larger folder, or correct on fewer images",
            ) from error
        self._files[name, part] = path

    def get(self, name: str, part: int) -> NDArray[Any]:
        """The array that was put."""
        held = self._held.get((name, part))
        return np.asarray(np.load(self._files[name, part]) if held is None else held)

    def drop(self, name: str, part: int) -> None:
        """Forget an array, if it is there."""
        held = self._held.pop((name, part), None)
        if held is not None:
            self._bytes -= held.nbytes
        path = self._files.pop((name, part), None)
        if path is not None:
            path.unlink()
