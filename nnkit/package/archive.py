"""Release archives: written in one form, verified to the last byte, extracted without tricks.

The manifest is the first file of the archive, the others follow sorted by name. Because each archive has exactly one
form, verification is a comparison: headers with what the writer would write, contents with the manifest.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from nnkit.errors import GateFailedError, NnkitError, UsageError, UserFileError, cannot_be_written
from nnkit.output_file import new_file
from nnkit.owned_folder import owned_folder
from nnkit.package import stored_zip
from nnkit.package.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    FileRecord,
    Manifest,
    ManifestError,
    OtherFormatError,
    parse_manifest,
)
from nnkit.package.paths import why_refused, why_refused_together
from nnkit.reading import open_regular

_ARTIFACT = "artifact/"
_MAX_DOCUMENT_BYTES = 1 << 28
_RESTORE = "get the package again from where it came, or build it again"


@dataclass(frozen=True)
class VerifyResult:
    """A package found intact: its manifest, and the size and SHA-256 of the whole archive.

    documents: content of every file outside of `artifact/`, by name.
    """

    path: Path
    manifest: Manifest
    size_bytes: int
    sha256: str
    documents: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class _Digest:
    size_bytes: int
    crc32: int
    sha256: str


def write_archive(
    files: Mapping[str, bytes | Path], manifest: Manifest, out: Path, *, sent: Sequence[Path] = ()
) -> Path:
    """Writes the archive to `out`, replacing it at once or not at all; the same inputs give the same bytes.

    Args:
        files: content, or the file that holds it, by name in the archive.
        manifest: its `files` are filled in from `files`.
        sent: folders whose links are not followed (see `nnkit.output_file`).

    Raises UsageError for a name that packages refuse, UserFileError where a file cannot be read, changes meanwhile,
    or the archive cannot be written.
    """
    _check_names(files)
    digests = {name: _digest(_source_chunks(name, files[name])) for name in sorted(files)}
    records = {name: FileRecord(digest.sha256, digest.size_bytes) for name, digest in digests.items()}
    manifest_bytes = replace(manifest, files=records).to_json()
    if len(manifest_bytes) > MAX_MANIFEST_BYTES:
        raise UsageError(
            f"the manifest has {len(manifest_bytes)} bytes; {MAX_MANIFEST_BYTES} is the limit",
            where=MANIFEST_NAME,
            remedy="keep large data in files of the artifact",
        )
    sources: dict[str, bytes | Path] = {MANIFEST_NAME: manifest_bytes}
    sources.update((name, files[name]) for name in digests)
    digests = {MANIFEST_NAME: _digest([manifest_bytes]), **digests}
    try:
        members = stored_zip.layout([(name, d.size_bytes, d.crc32) for name, d in digests.items()])
    except stored_zip.FormatError as error:
        raise UserFileError(f"the package would hold {error}", where=str(out), remedy="split the release") from error
    with new_file(out, sent=sent) as stream:
        for member in members:
            stream.write(stored_zip.local_header(member))
            written = _digest(_source_chunks(member.name, sources[member.name]), stream.write)
            if written != digests[member.name]:
                raise UserFileError(
                    "changed while it was being packed",
                    where=str(files[member.name]),
                    remedy="pack again when nothing writes to the build folder",
                )
        stream.write(stored_zip.directory(members))
    return out


def inspect_package(path: Path) -> Manifest:
    """The manifest of a package whose headers and manifest are intact; other contents are not read.

    Raises UserFileError where it is no package or cannot be read, GateFailedError where it was changed.
    """
    with _opened(path) as stream:
        manifest, _ = _read_manifest(stream)
        return manifest


def verify_package(path: Path) -> VerifyResult:
    """Checks every byte of a package.

    Raises UserFileError where it is no package, cannot be read, or holds names that packages refuse; GateFailedError
    where a byte was changed, added or removed, with the file or the offset.
    """
    with _opened(path) as stream:
        manifest, members = _read_manifest(stream)
        documents = {}
        for member in members:
            content: list[bytes] = []
            keep = not member.name.startswith(_ARTIFACT) and member.size_bytes <= _MAX_DOCUMENT_BYTES
            _check_content(stream, member, manifest, content.append if keep else None)
            if keep:
                documents[member.name] = b"".join(content)
        whole = _digest(_stream_chunks(stream))
        return VerifyResult(path, manifest, whole.size_bytes, whole.sha256, documents)


def extract_package(path: Path, dest: Path, verified: VerifyResult | None = None) -> Manifest:
    """Verifies the package and unpacks it, manifest included, into the folder `dest`, which must be new or empty.

    verified: of the same package, where that was done already; no other is unpacked then.

    All is written to a temporary folder beside `dest`, checked while it is written, and renamed at the end: `dest`
    holds all of an intact package or is left as it was. Raises as `verify_package`, and UserFileError where `dest`
    is not empty or cannot be written.
    """
    manifest = (verified or verify_package(path)).manifest
    _check_destination(dest)
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with owned_folder(dest.parent, f".{dest.name}.new-") as scratch:
            folder = scratch / "content"
            folder.mkdir()
            with _opened(path) as stream:
                _extract_into(folder, dest, stream, manifest)
            if dest.is_dir():
                dest.rmdir()
            folder.rename(dest)
    except OSError as error:
        raise cannot_be_written(dest, error) from error
    return manifest


def file_sha256(path: Path) -> str:
    """SHA-256 of a file as 64 hex digits. Raises UserFileError where it cannot be read."""
    return _digest(_source_chunks(str(path), path)).sha256


def _extract_into(folder: Path, dest: Path, stream: BinaryIO, manifest: Manifest) -> None:
    """Writes all members; whatever the file holds now must still be what was verified."""
    again, members = _read_manifest(stream)
    if again != manifest:
        raise GateFailedError("the package was exchanged while it was being extracted", remedy=_RESTORE)
    for member in members:
        target = folder.joinpath(*member.name.split("/"))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                _check_content(stream, member, manifest, out.write)
        except OSError as error:
            raise cannot_be_written(dest, error) from error


def _read_manifest(stream: BinaryIO) -> tuple[Manifest, tuple[stored_zip.Member, ...]]:
    """The manifest, and the members of an archive whose headers are intact and agree with it."""
    stream.seek(0)
    if stream.read(4) != stored_zip.LOCAL_SIGNATURE:
        raise UserFileError("is not an nnkit package", remedy="name a file that ends in .nnpkg")
    try:
        members = stored_zip.scan(stream)
    except stored_zip.FormatError as error:
        raise GateFailedError(f"the package is damaged: {error}", remedy=_RESTORE) from error
    first = members[0]
    if first.name != MANIFEST_NAME or first.size_bytes > MAX_MANIFEST_BYTES:
        raise UserFileError("is a zip file, but not an nnkit package", remedy="name a file that ends in .nnpkg")
    _refuse_tricks([member.name for member in members])
    data = b"".join(stored_zip.contents(stream, first))
    if zlib.crc32(data) != first.crc32:
        raise GateFailedError(f"the package is damaged: the checksum of {MANIFEST_NAME} differs", remedy=_RESTORE)
    try:
        manifest = parse_manifest(data)
    except OtherFormatError as error:
        raise UserFileError(
            str(error), remedy="use the version of nnkit that wrote it, or build the package again with this one"
        ) from error
    except ManifestError as error:
        raise GateFailedError(f"the package is damaged: {error}", remedy=_RESTORE) from error
    _check_members(members[1:], manifest)
    return manifest, members


def _refuse_tricks(names: list[str]) -> None:
    for name in names:
        reason = why_refused(name)
        if reason:
            raise UserFileError(
                f"the package holds a name that {reason}: {name!a}", remedy="do not trust this package"
            )
    together = why_refused_together(names)
    if together:
        raise UserFileError(f"the package holds names that clash: {together}", remedy="do not trust this package")


def _check_members(members: tuple[stored_zip.Member, ...], manifest: Manifest) -> None:
    names = [member.name for member in members]
    expected = sorted(manifest.files)
    if names != expected:
        odd = sorted(set(names) ^ set(expected))
        reason = f"{odd[0]!r} is in the archive or in the manifest alone" if odd else "its files are out of order"
        raise GateFailedError(f"the package is damaged: {reason}", remedy=_RESTORE)
    for member in members:
        expected_bytes = manifest.files[member.name].bytes
        if member.size_bytes != expected_bytes:
            raise GateFailedError(
                f"the package is damaged: {member.name!r} has {member.size_bytes} bytes; "
                f"the manifest says {expected_bytes}",
                remedy=_RESTORE,
            )


def _check_content(
    stream: BinaryIO, member: stored_zip.Member, manifest: Manifest, sink: Callable[[bytes], object] | None = None
) -> None:
    """Compares one file with its header and the manifest, passing its bytes on to `sink`."""
    try:
        digest = _digest(stored_zip.contents(stream, member), sink)
    except stored_zip.FormatError as error:
        raise GateFailedError(f"the package is damaged: {error}", remedy=_RESTORE) from error
    record = manifest.files.get(member.name)  # none for the manifest itself, which is compared by content
    if record is not None and digest.sha256 != record.sha256:
        raise GateFailedError(f"{member.name!r} was changed: its SHA-256 differs from the manifest", remedy=_RESTORE)
    if digest.crc32 != member.crc32:
        raise GateFailedError(f"the package is damaged: the checksum of {member.name!r} differs", remedy=_RESTORE)


def _digest(chunks: Iterator[bytes] | list[bytes], sink: Callable[[bytes], object] | None = None) -> _Digest:
    sha256 = hashlib.sha256()
    crc32 = size_bytes = 0
    for chunk in chunks:
        sha256.update(chunk)
        crc32 = zlib.crc32(chunk, crc32)
        size_bytes += len(chunk)
        if sink is not None:
            sink(chunk)
    return _Digest(size_bytes, crc32, sha256.hexdigest())


def _source_chunks(name: str, source: bytes | Path) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    try:
        with open_regular(source) as stream:
            yield from _stream_chunks(stream)
    except OSError as error:
        raise UserFileError(
            f"cannot be read for the package: {error.strerror or error}", where=str(source), remedy=f"provide {name}"
        ) from error


def _stream_chunks(stream: BinaryIO) -> Iterator[bytes]:
    stream.seek(0)
    while chunk := stream.read(stored_zip.CHUNK_BYTES):
        yield chunk


def _check_names(files: Mapping[str, bytes | Path]) -> None:
    for name in files:
        reason = "is the manifest's own name" if name.lower() == MANIFEST_NAME else why_refused(name)
        if reason:
            raise UsageError(f"{name!a} {reason}", where="package", remedy="rename the file")
    together = why_refused_together([MANIFEST_NAME, *files])
    if together:
        raise UsageError(together, where="package", remedy="rename one of the files")


def _check_destination(dest: Path) -> None:
    if dest.is_symlink() or (dest.exists() and (not dest.is_dir() or any(dest.iterdir()))):
        raise UserFileError(
            "exists and is not an empty folder", where=str(dest), remedy="name a folder that does not exist yet"
        )


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a package for reading; errors raised inside get its path as their place."""
    try:
        with open_regular(path) as stream:
            yield stream
    except OSError as error:
        raise UserFileError(
            f"cannot be read: {error.strerror or error}", where=str(path), remedy="check the name and its permissions"
        ) from error
    except NnkitError as error:
        error.where = error.where or str(path)
        raise
