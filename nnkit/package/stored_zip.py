"""A zip file that has exactly one form for given names and contents.

Members are stored without compression: what a compressor writes depends on its version, which would make the same
release differ between machines, and weights hardly shrink. Dates are 1980-01-01, permissions 0644, no extra fields,
no comments, nothing between members. Any zip tool opens the file. The reader accepts this one form only: each header
must equal, byte for byte, the one the writer would write. Format: PKWARE's APPNOTE.TXT, 4.3.7, 4.3.12 and 4.3.16.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

LOCAL_SIGNATURE = b"PK\x03\x04"
_CENTRAL_SIGNATURE = b"PK\x01\x02"
_END_SIGNATURE = b"PK\x05\x06"
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_VERSION = 20  # the first that knows folders in names
_MADE_BY = (3 << 8) | _VERSION  # 3: Unix permissions
_TIME, _DATE = 0, (1 << 5) | 1  # 1980-01-01 00:00
_PERMISSIONS = 0o100644 << 16
MAX_BYTES = (1 << 32) - 1  # of the whole file; more needs the zip64 extension
MAX_MEMBERS = (1 << 16) - 1
CHUNK_BYTES = 1 << 20


class FormatError(Exception):
    """The file is not of the one form; the message says where and why."""


@dataclass(frozen=True)
class Member:
    """One stored file: its name (ASCII), size, CRC-32, and where its local header and its data begin."""

    name: str
    size_bytes: int
    crc32: int
    header_offset: int

    @property
    def data_offset(self) -> int:
        """Offset of the first content byte in the zip file."""
        return self.header_offset + _LOCAL.size + len(self.name)


def layout(files: Sequence[tuple[str, int, int]]) -> tuple[Member, ...]:
    """Places (name, size in bytes, CRC-32) one after the other. Raises FormatError where they exceed 4 GiB."""
    members = []
    offset = 0
    for name, size_bytes, crc32 in files:
        members.append(Member(name, size_bytes, crc32, offset))
        offset = members[-1].data_offset + size_bytes
    if offset + len_of_directory(members) > MAX_BYTES or len(members) > MAX_MEMBERS:
        raise FormatError(f"more than {MAX_BYTES} bytes or {MAX_MEMBERS} files")
    return tuple(members)


def local_header(member: Member) -> bytes:
    """The bytes before a member's content."""
    size, name = member.size_bytes, member.name.encode("ascii")
    fields = (_VERSION, 0, 0, _TIME, _DATE, member.crc32, size, size, len(name), 0)
    return _LOCAL.pack(LOCAL_SIGNATURE, *fields) + name


def directory(members: Sequence[Member]) -> bytes:
    """The central directory and the end record: all that follows the last member."""
    records = b"".join(_central_record(member) for member in members)
    start = members[-1].data_offset + members[-1].size_bytes
    count = len(members)
    return records + _END.pack(_END_SIGNATURE, 0, 0, count, count, len(records), start, 0)


def len_of_directory(members: Sequence[Member]) -> int:
    """Bytes of `directory(members)`."""
    return sum(_CENTRAL.size + len(member.name) for member in members) + _END.size


def scan(stream: BinaryIO) -> tuple[Member, ...]:
    """Reads all headers of a seekable stream and checks every byte that is not content.

    Raises FormatError where any of them differs from what the writer would have written. Contents are not read.
    """
    total_bytes = stream.seek(0, os.SEEK_END)
    members: list[Member] = []
    offset = 0
    while True:
        stream.seek(offset)
        if stream.read(4) != LOCAL_SIGNATURE:
            break
        member = _read_member(stream, offset, total_bytes)
        members.append(member)
        if len(members) > MAX_MEMBERS:
            raise FormatError(f"more than {MAX_MEMBERS} files")
        offset = member.data_offset + member.size_bytes
    if not members:
        raise FormatError("no file header at byte 0")
    _check_directory(stream, offset, total_bytes, members)
    return tuple(members)


def contents(stream: BinaryIO, member: Member) -> Iterator[bytes]:
    """The member's content in chunks. Raises FormatError where the file ends before."""
    stream.seek(member.data_offset)
    left = member.size_bytes
    while left:
        chunk = stream.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise FormatError(f"the file ends inside {member.name!r}")
        left -= len(chunk)
        yield chunk


def _central_record(member: Member) -> bytes:
    size, name = member.size_bytes, member.name.encode("ascii")
    fields = (_MADE_BY, _VERSION, 0, 0, _TIME, _DATE, member.crc32, size, size, len(name), 0, 0, 0, 0)
    return _CENTRAL.pack(_CENTRAL_SIGNATURE, *fields, _PERMISSIONS, member.header_offset) + name


def _read_member(stream: BinaryIO, offset: int, total_bytes: int) -> Member:
    stream.seek(offset)
    fixed = stream.read(_LOCAL.size)
    if len(fixed) < _LOCAL.size:
        raise FormatError(f"the file ends inside the header at byte {offset}")
    fields = _LOCAL.unpack(fixed)
    crc32, size_bytes, name_length = fields[6], fields[7], fields[9]
    raw_name = stream.read(name_length)
    if not raw_name.isascii():
        raise FormatError(f"the name in the header at byte {offset} is not ASCII")
    member = Member(raw_name.decode("ascii"), size_bytes, crc32, offset)
    difference = _first_difference(fixed + raw_name, local_header(member))
    if difference is not None:
        raise FormatError(f"the header of {member.name!r} is changed at byte {offset + difference}")
    if member.data_offset + size_bytes > total_bytes:
        raise FormatError(f"the file ends inside {member.name!r}")
    return member


def _check_directory(stream: BinaryIO, offset: int, total_bytes: int, members: Sequence[Member]) -> None:
    expected_bytes = len_of_directory(members)
    if offset + expected_bytes > MAX_BYTES:
        raise FormatError(f"more than {MAX_BYTES} bytes")
    stream.seek(offset)
    difference = _first_difference(stream.read(expected_bytes), directory(members))
    if difference is not None:
        raise FormatError(f"the directory is changed at byte {offset + difference}")
    extra = total_bytes - offset - expected_bytes
    if extra:
        raise FormatError(f"{extra} bytes follow the end of the archive")


def _first_difference(actual: bytes, expected: bytes) -> int | None:
    """Index of the first byte that differs; the end of the shorter one counts as different."""
    if actual == expected:
        return None
    pairs = zip(actual, expected, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(actual), len(expected)))
