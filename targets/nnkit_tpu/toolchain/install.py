"""Installation of the vendor's toolchain into the user's cache: downloaded, checked, extracted, moved in place.

The package index is the one that pip is configured for. An installation is complete or absent: files are extracted
into a folder of their own, which is renamed when all are there. Runs side by side wait for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnkit.cache import default_folder
from nnkit.children.start import EVERYTHING, python_child
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool
from nnkit.owned_folder import owned_folder
from nnkit_tpu.toolchain.wheel import MEMBERS, PACKAGE, PYTHON_VERSION, VERSION, WHEEL_SHA256

_RECORD = "installation.json"
_DOWNLOAD_TIMEOUT_S = 1800.0
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Installation:
    """What is installed. bytes: of its files; downloaded_bytes: of the wheel, 0 where it was there already."""

    folder: Path
    version: str
    bytes: int
    downloaded_bytes: int = 0


def installation_folder() -> Path:
    """Where the pinned version is installed: in the user's cache folder, by name and version."""
    return default_folder() / "toolchains" / f"{PACKAGE}-{VERSION}"


def read_installation(folder: Path) -> Installation | None:
    """The installation in `folder`; None where it is absent or files are missing or cut short."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        sizes = {str(name): int(size) for name, size in record["files"].items()}
        complete = set(sizes) == set(MEMBERS) and all((folder / n).stat().st_size == s for n, s in sizes.items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    if not complete or record.get("version") != VERSION:
        return None
    return Installation(folder, VERSION, sum(sizes.values()))


def changed_files(folder: Path) -> tuple[str, ...]:
    """Files of an installation whose content is not what was installed, by their hashes: a second of reading."""
    return tuple(name for name, digest in MEMBERS.items() if _sha256(folder / name) != digest)


def install(wheel: Path | None = None) -> Installation:
    """Install the pinned version if it is not there, or not as it was installed. wheel: a file that was downloaded
    elsewhere.

    Raises ToolError where the index does not have it, its hash is not the pinned one, or there is no room.
    """
    folder = installation_folder()
    installed = _sound(folder)
    if installed is not None:
        return installed
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            installed = _sound(folder)  # another run may have made it while we waited
            return installed if installed is not None else _install(folder, wheel)
    except OSError as error:
        raise ToolError(
            f"the toolchain cannot be installed: {error.strerror or error}",
            where=str(error.filename or folder),
            remedy="it needs 600 MB while installing and 220 MB afterwards; NNKIT_CACHE names another folder",
        ) from error


def _sound(folder: Path) -> Installation | None:
    installed = read_installation(folder)
    return None if installed is None or changed_files(folder) else installed


def _install(folder: Path, wheel: Path | None) -> Installation:
    with owned_folder(folder.parent, ".installing-") as work:
        source = _download(work) if wheel is None else wheel
        _check_hash(source)
        made = work / "made"
        sizes = _extract(source, made)
        record = {"package": PACKAGE, "version": VERSION, "wheel_sha256": WHEEL_SHA256, "files": sizes}
        (made / _RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        if folder.exists():  # incomplete: read_installation refused it
            folder.rename(work / "incomplete")
        made.rename(folder)
        return Installation(folder, VERSION, sum(sizes.values()), source.stat().st_size)


def _download(work: Path) -> Path:
    command, environment = python_child(
        *("pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"),
        *("--python-version", PYTHON_VERSION, "--only-binary=:all:", "--dest", str(work), f"{PACKAGE}=={VERSION}"),
        inherited=EVERYTHING,  # its index, proxies and certificates are the user's
    )
    run = run_tool(command, environment=environment, timeout_s=_DOWNLOAD_TIMEOUT_S, name="pip")
    wheels = sorted(work.glob("*.whl"))
    if run.failed or len(wheels) != 1:
        raise ToolError(
            run.with_tail(f"pip could not download {PACKAGE} {VERSION}: it {run.ending}"),
            where="pip download",
            remedy="check that pip reaches its package index (`pip config list`)",
        )
    return wheels[0]


def _check_hash(wheel: Path) -> None:
    digest = _sha256(wheel)
    if digest != WHEEL_SHA256:
        raise ToolError(
            f"the SHA-256 of the wheel is {digest}, {WHEEL_SHA256} is expected",
            where=wheel.name,
            remedy="the index serves another file, or the download is damaged: try again, then ask its operator",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _extract(wheel: Path, folder: Path) -> dict[str, int]:
    """The needed members as files of `folder`, executable; sizes by name."""
    sizes: dict[str, int] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in MEMBERS:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with archive.open(f"{PACKAGE}/{name}") as source, path.open("wb") as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
            except KeyError as error:
                raise ToolError(f"the wheel has no file {name}", where=wheel.name) from error
            path.chmod(0o755)
            sizes[name] = path.stat().st_size
    return sizes


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file; the system releases it when the process ends, however it ends."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
