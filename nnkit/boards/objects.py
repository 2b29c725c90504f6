"""Object files of generated C, each compiled once in a process.

A network is compiled plain and with tracing, for several inputs and by several runners, and nearly all of its sources
are the same in all of them.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from nnkit.boards.tools import run_in
from nnkit.owned_folder import temporary_folder

_COMPILE_TIMEOUT_S = 300.0
_MOST_BYTES = 256 << 20
_CALL_GRAPH = ".ci"


def compile_object(command: Sequence[str], includes: Sequence[Path], source: Path, place: Path) -> None:
    """Compile a source to the object file `place`, or take what this process made of the same bytes before.

    A call graph that the compiler leaves beside the object (`-fcallgraph-info`) is there in both cases.

    Args:
        command: the compiler and its flags, without include folders, source and output.
        includes: folders of headers, all of whose `.h` files count as read. A source that reads anything else, by
            `.incbin` say, is not for here: that it changed would not be seen.

    Raises ToolError with the end of the compiler's log.
    """
    key = _key(command, includes, source)
    store = _store(os.getpid())
    with store.lock_of(key):
        if not store.take(key, place):
            folders = [f"-I{folder}" for folder in includes]
            run_in(place.parent, [*command, *folders, "-c", "-o", str(place), str(source)], _COMPILE_TIMEOUT_S)
            store.keep(key, place)


def _key(command: Sequence[str], includes: Sequence[Path], source: Path) -> str:
    read = [(source.name, source)]
    for number, folder in enumerate(includes):
        read += [(f"{number}/{path.relative_to(folder)}", path) for path in sorted(folder.rglob("*.h"))]
    digest = hashlib.sha256("\0".join(command).encode())
    for name, path in read:
        content = path.read_bytes()
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


class _Store:
    """A folder of objects by key; the oldest go where they are more than `_MOST_BYTES`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder = self._stack.enter_context(temporary_folder("nnkit-objects-"))
        self._bytes: OrderedDict[str, int] = OrderedDict()
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Remove the folder."""
        self._stack.close()

    def lock_of(self, key: str) -> threading.Lock:
        """Held while an object is made, so that another thread waits for it."""
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())

    def take(self, key: str, place: Path) -> bool:
        """Whether the object was there, and is now at `place`."""
        with self._lock:
            if key not in self._bytes:
                return False
            self._bytes.move_to_end(key)
            for suffix in (place.suffix, _CALL_GRAPH):
                kept = self._folder / f"{key}{suffix}"
                if kept.exists():
                    shutil.copyfile(kept, place.with_suffix(suffix))
            return True

    def keep(self, key: str, place: Path) -> None:
        """Keep a copy, where there is room on the disk."""
        with self._lock, suppress(OSError):
            size = 0
            for suffix in (place.suffix, _CALL_GRAPH):
                if place.with_suffix(suffix).exists():
                    size += place.with_suffix(suffix).stat().st_size
                    shutil.copyfile(place.with_suffix(suffix), self._folder / f"{key}{suffix}")
            self._bytes[key] = size
            while sum(self._bytes.values()) > _MOST_BYTES:
                oldest, _ = self._bytes.popitem(last=False)
                for path in self._folder.glob(f"{oldest}.*"):
                    path.unlink()


@functools.cache
def _store(process: int) -> _Store:
    """The process's own: a child that was forked makes another."""
    store = _Store()
    atexit.register(lambda: store.close() if os.getpid() == process else None)
    return store
