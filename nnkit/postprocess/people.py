"""A gallery of people: entries with names, which can be removed, stored and loaded.

What is stored, little-endian: ten words of 32 bits (`NNPG`, 1, sequence, network, values of a descriptor, bytes of a
value, bytes of a name, entries, CRC-32 of the eight words before it and of all entries, 0), then of each entry its
name in UTF-8 with zeros behind, and its values as they are compared. There are two slots: a gallery goes to the one
that does not hold the last one, with the next sequence number. `c/postprocess/nnkit_people.c` reads and writes the
same bytes.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess.descriptor_match import DescriptorMatch, Gallery, Match

_HEADER = struct.Struct("<4s9I")
_MAGIC, _FORMAT = b"NNPG", 1
ERASED = 0xFF
"""Value of bytes that nothing has been written to."""


class NoGalleryError(Exception):
    """Nothing is stored, or what is stored is damaged."""


class OtherNetworkError(Exception):
    """What is stored are descriptors of another network."""


class People:
    """Named entries, in order of enrolment; a person may have several.

    network: a number that the descriptors of one network have in common. name_bytes: of a name, with the 0 behind.
    """

    def __init__(self, params: DescriptorMatch, name_bytes: int, network: int) -> None:
        self.gallery = Gallery(params)
        self.names: list[str] = []
        self.name_bytes = name_bytes
        self.network = network

    def enrol(self, name: str, descriptor: NDArray[Any]) -> bool:
        """Adds a descriptor [length]; False where the gallery is full. Raises UsageError for a name that is none."""
        if not 1 <= len(name.encode()) < self.name_bytes or "\0" in name:
            raise UsageError(
                f"{name!r} cannot be a name", where="people", remedy=f"use 1 to {self.name_bytes - 1} bytes of UTF-8"
            )
        if self.gallery.enrol(descriptor) is None:
            return False
        self.names.append(name)
        return True

    def remove(self, name: str) -> int:
        """Removes all entries of a name; how many they were."""
        kept = [index for index, other in enumerate(self.names) if other != name]
        removed = len(self.names) - len(kept)
        self.gallery.refill(self.gallery.entries[kept])
        self.names = [self.names[index] for index in kept]
        return removed

    def match(self, descriptor: NDArray[Any]) -> Match:
        """The nearest entry, as `Gallery.match`; its name is `names[index]`."""
        return self.gallery.match(descriptor)

    def as_bytes(self, sequence: int) -> bytes:
        """What is stored."""
        values = self.gallery.entries
        body = b"".join(
            name.encode().ljust(self.name_bytes, b"\0")
            + np.ascontiguousarray(row).astype(row.dtype.newbyteorder("<")).tobytes()
            for name, row in zip(self.names, values, strict=True)
        )
        words = (_FORMAT, sequence, self.network, values.shape[1], values.itemsize, self.name_bytes, len(values))
        head = struct.pack("<4s7I", _MAGIC, *words)
        return head + struct.pack("<2I", zlib.crc32(head + body), 0) + body

    def read(self, stored: bytes) -> int:
        """Takes over what is stored; its sequence number. Raises NoGalleryError, OtherNetworkError."""
        if len(stored) < _HEADER.size:
            raise NoGalleryError
        magic, form, sequence, network, length, width, name_bytes, count, checksum, _ = _HEADER.unpack_from(stored)
        if magic != _MAGIC or form != _FORMAT:
            raise NoGalleryError
        params = self.gallery.params
        dtype = self.gallery.entries.dtype.newbyteorder("<")
        own = (self.network, params.length, dtype.itemsize, self.name_bytes)
        if (network, length, width, name_bytes) != own or count > params.capacity:
            raise OtherNetworkError
        entry = name_bytes + length * width
        body = stored[_HEADER.size : _HEADER.size + count * entry]
        if len(body) != count * entry or zlib.crc32(stored[:32] + body) != checksum:
            raise NoGalleryError
        rows = [body[at : at + entry] for at in range(0, len(body), entry)]
        self.names = [row[:name_bytes].split(b"\0")[0].decode(errors="replace") for row in rows]
        values = [np.frombuffer(row, dtype, offset=name_bytes) for row in rows]
        self.gallery.refill(np.array(values, dtype).reshape(count, length))
        return int(sequence)


class PeopleStore:
    """The two slots, as a port of the C keeps them."""

    def __init__(self, slot_bytes: int) -> None:
        self.slots = [bytes([ERASED]) * slot_bytes for _ in range(2)]

    def save(self, people: People) -> None:
        """Writes to the slot that does not hold the last gallery."""
        newest, sequence = self._newest(people)
        slot = 1 if newest == 0 else 0
        stored = people.as_bytes(sequence + 1)
        self.slots[slot] = stored.ljust(len(self.slots[slot]), bytes([ERASED]))

    def load(self, people: People) -> None:
        """Reads the last gallery. Raises NoGalleryError, OtherNetworkError."""
        newest, _ = self._newest(people)
        if newest is not None:
            people.read(self.slots[newest])
            return
        for slot in self.slots:
            try:
                people.read(slot)
            except NoGalleryError:
                continue
        raise NoGalleryError

    def _newest(self, people: People) -> tuple[int | None, int]:
        readable: list[tuple[int, int]] = []
        for slot, stored in enumerate(self.slots):
            trial = People(people.gallery.params, people.name_bytes, people.network)
            try:
                readable.append((trial.read(stored), slot))
            except (NoGalleryError, OtherNetworkError):
                continue
        if not readable:
            return None, 0
        sequence, slot = max(readable)
        return slot, sequence
