"""The stage cache: results of stages on disk, found by the content that went into them.

A key is a digest of the stage's name, its inputs' digests, its options, the source code it runs and the versions of
the tools it uses. An entry is one file, written under a temporary name and renamed, so that runs side by side never
see half of one; a checksum is verified on reading, and a damaged entry is removed and counts as absent. Bytes only:
nothing is ever executed or unpickled. The least recently used entries go when the cache is over its bound. A cache
that cannot be written does no harm: stages are computed anew, and `notes` says why.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from nnkit.errors import InternalError
from nnkit.owned_folder import is_left_behind, locked_file
from nnkit.reading import open_regular

MAX_BYTES = 2 * 2**30
"""Default bound of the whole cache."""

ENVIRONMENT_VARIABLE = "NNKIT_CACHE"
"""Names another cache folder."""

Content: TypeAlias = bytes | tuple[bytes | memoryview, ...]
"""The content of a file, whole or in pieces, so that large contents need not be copied."""

_MAGIC = b"nnkit-cache-2\n"
_DIGEST_BYTES = 32
_LENGTH_BYTES = 8
_SUFFIX = ".entry"
_CONTRACTS = ("graph", "program", "memory/plan.py", "calibrate/stats.py", "rewrite/log.py", "stages", "serialize.py")
"""Code in every key, as every stage's result is made of these types and stored by this code."""


def default_folder() -> Path:
    """`NNKIT_CACHE`, or the user's cache folder as the system has it (`XDG_CACHE_HOME` counts everywhere)."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the XDG specification has relative ones ignored
        return Path(xdg) / "nnkit"
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "nnkit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "nnkit" / "Cache"
    return home / ".cache" / "nnkit"


class StageCache:
    """Stage results in the folder `root` (None: nothing is kept), bounded to `max_bytes`."""

    def __init__(self, root: Path | None, max_bytes: int = MAX_BYTES) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self._notes: list[str] = []

    @classmethod
    def default(cls) -> StageCache:
        """The user's cache."""
        return cls(default_folder())

    @classmethod
    def disabled(cls) -> StageCache:
        """A cache that keeps nothing."""
        return cls(None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What went wrong with the cache, each thing once."""
        return tuple(self._notes)

    def key(
        self,
        stage: str,
        *,
        inputs: Iterable[str],
        options: Any = None,
        modules: Iterable[ModuleType | str] = (),
        tools: Mapping[str, str] | Iterable[str] = (),
    ) -> str:
        """The key of one stage call: 64 hexadecimal digits.

        inputs: digests of what the stage reads, in order.
        options: plain data, dataclasses or pydantic models.
        modules: the stage's code, as modules or their names; a package stands for all its files.
        tools: versions by name, or names of installed distributions.

        Raises:
            InternalError: `options` holds something else.
        """
        versions = dict(tools) if isinstance(tools, Mapping) else {name: installed_version(name) for name in tools}
        parts = {
            "stage": stage,
            "inputs": list(inputs),
            "options": _canonical(options),
            "source": source_digest(modules),
            "tools": {str(name): str(version) for name, version in versions.items()},
            "python": list(sys.version_info[:2]),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def get(self, key: str) -> dict[str, bytes] | None:
        """The files stored under `key`; None where there are none, or they are damaged (they are removed then)."""
        if self.root is None:
            return None
        path = self._path(key)
        try:
            with open_regular(path) as stream:
                data = stream.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._failed("cannot be read", error)
            return None
        files = _unpacked(key, data)
        try:
            if files is None:
                path.unlink(missing_ok=True)
            else:
                os.utime(path)  # used now: eviction takes the least recently used
        except OSError:
            return files  # a cache that can only be read works too
        return files

    def put(self, key: str, files: Mapping[str, Content]) -> bool:
        """Store `files` under `key`, then evict down to the bound; whether it was stored."""
        if self.root is None:
            return False
        parts = _packed(key, files)
        size = sum(map(len, parts))
        if size > self.max_bytes:
            self._note(f"a result of {size:,} bytes is over the bound of the cache and is not kept")
            return False
        path = self._path(key)
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = locked_file(temporary, 0o666)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.writelines(parts)
                    file.flush()
                    os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            self._evict(keep=path)
        except OSError as error:
            self._failed("cannot be written", error)
            return False
        return True

    def drop(self, key: str) -> None:
        """Remove what is stored under `key`, if anything is."""
        if self.root is not None:
            try:
                self._path(key).unlink(missing_ok=True)
            except OSError as error:
                self._failed("cannot be written", error)

    def _path(self, key: str) -> Path:
        if self.root is None or len(key) != 64 or not set(key) <= set("0123456789abcdef"):
            raise InternalError(f"'{key}' is not a cache key")
        return self.root / key[:2] / f"{key}{_SUFFIX}"

    def _evict(self, keep: Path) -> None:
        """Remove entries, least recently used first, until the rest fits; and what killed runs left."""
        entries: list[tuple[float, int, Path]] = []
        for path in (self.root or keep.parent).glob("??/*"):
            try:
                status = path.stat()
                if path.name.endswith(".tmp") and is_left_behind(path):
                    path.unlink(missing_ok=True)
                elif path.suffix == _SUFFIX:
                    entries.append((status.st_mtime, status.st_size, path))
            except OSError:
                continue  # another run removed it
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries, key=lambda entry: (entry[0], entry[2].name)):
            if total <= self.max_bytes:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size

    def _failed(self, what: str, error: OSError) -> None:
        self._note(f"the cache {what} ({self.root}: {error.strerror or error}); the run goes on without it")

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)


def source_digest(modules: Iterable[ModuleType | str]) -> str:
    """SHA-256 over the files of `modules` (names or modules; packages with all they contain) and of the types that
    all stages share.

    Raises:
        InternalError: a module has no file.
    """
    own = Path(__file__).parent
    files: dict[str, Path] = {}
    for name in _CONTRACTS:
        files |= _files(own / name, name)
    for module in modules:
        files |= _module_files(module)
    state = hashlib.sha256()
    for name in sorted(files):
        content = files[name].read_bytes()
        state.update(f"{name}\0{len(content)}\0".encode())
        state.update(content)
    return state.hexdigest()


def installed_version(distribution: str) -> str:
    """The version of an installed distribution, found without importing it; `absent` where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return "absent"


def _module_files(module: ModuleType | str) -> dict[str, Path]:
    if isinstance(module, ModuleType):
        name, spec = module.__name__, module.__spec__
    else:
        from importlib.util import find_spec

        name, spec = module, find_spec(module)
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        raise InternalError(f"module {name} has no source file")
    origin = Path(spec.origin)
    return _files(origin.parent if origin.name == "__init__.py" else origin, name)


def _files(path: Path, name: str) -> dict[str, Path]:
    """The file, or all files below the folder, by a name that does not depend on where it is installed."""
    if not path.is_dir():
        return {name: path}
    return {
        f"{name}/{file.relative_to(path).as_posix()}": file
        for file in path.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def _canonical(value: Any) -> Any:
    """Options as JSON data in which different values stay different."""
    if value is None or isinstance(value, bool | int | str):
        return [type(value).__name__, value]
    if isinstance(value, float):
        return ["float", repr(value)]
    if isinstance(value, bytes):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if isinstance(value, tuple | list):
        return ["sequence", [_canonical(item) for item in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted((_canonical(item) for item in value), key=json.dumps)]
    if isinstance(value, Mapping):
        return ["map", sorted(([_canonical(k), _canonical(v)] for k, v in value.items()), key=json.dumps)]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {f.name: _canonical(getattr(value, f.name)) for f in fields(value)}]
    if hasattr(value, "model_dump"):  # a pydantic model
        return [type(value).__name__, _canonical(value.model_dump(mode="json"))]
    raise InternalError(f"an option of class {type(value).__name__} cannot be part of a cache key")


def _packed(key: str, files: Mapping[str, Content]) -> tuple[bytes | memoryview, ...]:
    """An entry in parts: magic, SHA-256 of key and rest, header length, header [[name, bytes], ...], contents."""
    contents = [(content,) if isinstance(content, bytes) else content for content in files.values()]
    header = json.dumps([[name, sum(map(len, parts))] for name, parts in zip(files, contents, strict=True)]).encode()
    rest = (len(header).to_bytes(_LENGTH_BYTES, "little"), header, *(part for parts in contents for part in parts))
    state = hashlib.sha256(key.encode())
    for part in rest:
        state.update(part)
    return (_MAGIC, state.digest(), *rest)


def _unpacked(key: str, data: bytes) -> dict[str, bytes] | None:
    """The files of an entry; None where it is damaged."""
    start = len(_MAGIC) + _DIGEST_BYTES
    rest = memoryview(data)[start:]
    state = hashlib.sha256(key.encode())
    state.update(rest)
    if not data.startswith(_MAGIC) or state.digest() != data[len(_MAGIC) : start]:
        return None
    end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "little")
    files = {}
    try:
        for name, size in json.loads(bytes(rest[_LENGTH_BYTES:end])):
            files[str(name)] = bytes(rest[end : end + size])
            end += size
    except (ValueError, TypeError, RecursionError):  # somebody's own entry, with the right sum
        return None
    return files
