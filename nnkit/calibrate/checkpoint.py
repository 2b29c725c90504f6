"""What a calibration run has done so far, in the stage cache, so that an interrupted one goes on where it was.

The entry's key covers the network, the images, their preprocessing and our code: another calibration has another one.
An entry that is damaged, or evicted, counts as none.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nnkit.cache import StageCache
from nnkit.calibrate.observers import Extremes, Histogram
from nnkit.calibrate.run import Observations
from nnkit.calibrate.stats import SkippedImage
from nnkit.calibrate.storage import histogram_from_json, histogram_to_json

_FILE = "checkpoint"
_SECONDS = 5.0
"""At most this much work is lost, and writing never takes much of the time."""


@dataclass(frozen=True, eq=False)
class Finished:
    """The parts that are done. observers: merged over them. skipped: by index of the part, files left out of it."""

    observers: Mapping[str, Any] = field(default_factory=dict)
    images: int = 0
    skipped: Mapping[int, tuple[SkippedImage, ...]] = field(default_factory=dict)

    def with_part(self, index: int, part: Observations) -> Finished:
        """With one more part."""
        both = Observations(self.observers, self.images).merged(Observations(part.observers, part.images))
        return Finished(both.observers, both.images, {**self.skipped, index: part.skipped})


class Checkpoint:
    """The entry of one calibration. A cache that keeps nothing has no checkpoints; that does no harm."""

    def __init__(self, cache: StageCache, key: str) -> None:
        self._cache, self._key = cache, key
        self._last = time.monotonic()
        self._unsaved: Finished | None = None

    def read(self) -> Finished:
        """What was done; nothing where there is no entry, or it is damaged."""
        try:
            return _from_json(json.loads(zlib.decompress((self._cache.get(self._key) or {})[_FILE])))
        except (ValueError, KeyError, TypeError, zlib.error):
            return Finished()

    def keep(self, finished: Finished) -> None:
        """Remember; written at once where the last writing is a while ago, and by `close` at the latest."""
        self._unsaved = finished
        if time.monotonic() - self._last >= _SECONDS:
            self.close()

    def close(self) -> None:
        """Write what is not written yet."""
        if self._unsaved is not None:
            text = json.dumps(_to_json(self._unsaved), separators=(",", ":"))
            self._cache.put(self._key, {_FILE: zlib.compress(text.encode(), 1)})
            self._unsaved = None
            self._last = time.monotonic()

    def remove(self) -> None:
        """The work is done."""
        self._unsaved = None
        self._cache.drop(self._key)


def _to_json(finished: Finished) -> dict[str, Any]:
    return {
        "images": finished.images,
        "skipped": [[index, [asdict(image) for image in images]] for index, images in finished.skipped.items()],
        "observers": {
            name: histogram_to_json(observer)
            if isinstance(observer, Histogram)
            else [observer.low, observer.high, observer.count]
            for name, observer in finished.observers.items()
        },
    }


def _from_json(stored: dict[str, Any]) -> Finished:
    return Finished(
        {
            name: Extremes(*entry) if isinstance(entry, list) else histogram_from_json(entry)
            for name, entry in stored["observers"].items()
        },
        int(stored["images"]),
        {int(index): tuple(SkippedImage(**image) for image in images) for index, images in stored["skipped"]},
    )
