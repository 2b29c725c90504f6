"""One pass over samples in lanes: threads that each take the next sample, decode it, run the network on it and count.

Decoding one image overlaps with running the network on another, and memory is that of one sample a lane. All count
into the same sums, which are exact, so that the result does not depend on which lane had which sample.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnkit.calibrate.recorder import Recorder
from nnkit.calibrate.stats import SkippedImage
from nnkit.errors import ModelError
from nnkit.executors import usable_cores
from nnkit.visible import joined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nnkit.calibrate.all_values import AllValues

LANES = 2
"""More would take more memory: each holds all values of a sample."""


@dataclass(frozen=True, eq=False)
class CalibrationSample:
    """One sample: its name for messages, and its inputs or the file that could not be used."""

    name: str
    inputs: dict[str, NDArray[np.float32]] | SkippedImage


def lanes_for(samples: int) -> int:
    """How many lanes are of use: no more than there are cores or samples."""
    return max(1, min(LANES, usable_cores(), samples))


class Pass:
    """One pass over `total` samples, for one call of `run`.

    load: the sample of an index. Once more than `allowed_bad` samples are unreadable, the network is not run any more
    and the rest is only decoded, so that all bad files are known at once. progress: called after each sample, by one
    lane at a time.
    """

    def __init__(
        self,
        network: AllValues,
        recorder: Recorder,
        load: Callable[[int], CalibrationSample],
        *,
        total: int,
        allowed_bad: int,
        progress: Callable[[], object] | None,
    ) -> None:
        self._network, self._recorder, self._load = network, recorder, load
        self._allowed_bad, self._progress = allowed_bad, progress
        self._lock = threading.Lock()
        self._next, self._end = 0, total
        self._failures: dict[int, Exception] = {}
        self._skipped: dict[int, SkippedImage] = {}
        self.images = 0

    @property
    def skipped(self) -> tuple[SkippedImage, ...]:
        """What could not be used, in the order of the samples."""
        return tuple(self._skipped[index] for index in sorted(self._skipped))

    def run(self, lanes: int) -> None:
        """Record all samples; with one lane in this thread.

        Raises:
            ModelError: of the first sample that the network fails on, whichever lane had it.
        """
        if lanes == 1:
            self._lane()
        else:
            with ThreadPoolExecutor(lanes, thread_name_prefix="calibrate") as pool:
                futures = [pool.submit(self._lane) for _ in range(lanes)]
                try:
                    for future in futures:
                        future.result()
                except BaseException:  # an interrupt: what is under way ends, nothing more is begun
                    self._stop_before(0)
                    raise
        if self._failures:
            raise self._failures[min(self._failures)]

    def _lane(self) -> None:
        values_of = self._network.reader()
        while (index := self._take()) is not None:
            try:
                self._sample(self._load(index), index, values_of)
            except Exception as error:
                with self._lock:
                    self._failures[index] = error
                self._stop_before(index)

    def _take(self) -> int | None:
        with self._lock:
            if self._next >= self._end:
                return None
            self._next += 1
            return self._next - 1

    def _stop_before(self, index: int) -> None:
        """Samples from this one on need not be begun any more."""
        with self._lock:
            self._end = min(self._end, index)

    def _sample(
        self,
        sample: CalibrationSample,
        index: int,
        values_of: Callable[[Mapping[str, NDArray[np.float32]]], Mapping[str, NDArray[Any]]],
    ) -> None:
        if isinstance(sample.inputs, SkippedImage):
            with self._lock:
                self._skipped[index] = sample.inputs
        elif len(self._skipped) <= self._allowed_bad:
            try:
                self._recorder.record(values_of(sample.inputs))
            except ModelError as error:
                reason = joined(error.reason, f", for {sample.name}")
                raise ModelError(reason, where=error.where, remedy=error.remedy) from error
            with self._lock:
                self.images += 1
        if self._progress is not None:
            with self._lock:
                self._progress()
