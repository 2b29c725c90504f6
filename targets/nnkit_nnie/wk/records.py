"""The records of a compiled network: the parameters of its layers, in the order of the network.

The body begins with the records; u32@96 and u32@100 say where in it the index is and how many bytes it has: eight a
record, offset and length. An entry of length 0 stands for nothing. A record is a flag, the size of what follows once
it is unpacked (u16), that, and the exclusive or of the 16-bit words of what follows, unpacked. Flag 0 says that it is
not compressed; `compressed` has the code of the others. One that does not give its own checksum so is not read.

Source: files that the vendor's mapper made.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from nnkit_nnie.wk.compressed import COMPRESSED, HAS_RUNS, HAS_TABLE, TABLE_BYTES, unpack

_INDEX_AT, _REGION_BYTES_AT = 96, 84
_KNOWN_FLAGS = COMPRESSED | HAS_TABLE | HAS_RUNS
_MOST_RECORDS = 1 << 20  # a network of 5,000 layers of 200 records each
_ENTRY_BYTES, _FLAG_AND_SIZE_BYTES, _CHECKSUM_BYTES, _FRAME_BYTES = 8, 3, 2, 5


@dataclass(frozen=True)
class WkRecord:
    """A record. size_bytes: unpacked. payload: its bytes, unpacked; None where it is compressed in a way not known.

    checksum: the exclusive or of the 16-bit words of its content, unpacked.
    """

    size_bytes: int
    payload: memoryview | None
    checksum: int


def read_records(data: bytes, body_at: int) -> tuple[WkRecord, ...]:
    """All records but the empty ones. data: the file, whose header is sound; body_at: where its body begins.

    Raises ValueError, with the reason, where the index or a record lies outside the region of parameters, records
    overlap, or one is not as long as it says.
    """
    body = memoryview(data)[body_at:]
    (region_bytes,) = struct.unpack_from("<I", data, _REGION_BYTES_AT)
    index_at, index_bytes = struct.unpack_from("<II", data, _INDEX_AT)
    if region_bytes > len(body):
        raise ValueError(f"its parameters have {region_bytes} bytes, its body {len(body)}")
    if index_at + index_bytes > len(body) or index_bytes % _ENTRY_BYTES:
        raise ValueError(f"its index of {index_bytes} bytes at {index_at} is not inside its body")
    if index_bytes > _MOST_RECORDS * _ENTRY_BYTES:
        raise ValueError(f"its index has {index_bytes // _ENTRY_BYTES} entries, more than any network has")
    records, table = [], b""
    used_to = 0
    for number, (offset, length) in enumerate(struct.iter_unpack("<II", body[index_at : index_at + index_bytes])):
        if not length:
            continue
        if offset < used_to or length < _FRAME_BYTES or offset + length > region_bytes:
            raise ValueError(f"record {number} ({length} bytes at {offset}) overlaps others or leaves the parameters")
        used_to = offset + length
        flag, size = struct.unpack_from("<BH", body, offset)
        (checksum,) = struct.unpack_from("<H", body, offset + length - _CHECKSUM_BYTES)
        if flag:
            content = bytes(body[offset + _FLAG_AND_SIZE_BYTES : offset + length - _CHECKSUM_BYTES])
            if flag & HAS_TABLE:
                table, content = content[:TABLE_BYTES], content[TABLE_BYTES:]
            records.append(WkRecord(size, _unpacked(content, size, table, flag, checksum), checksum))
            continue
        if size + _FRAME_BYTES != length:
            raise ValueError(f"record {number} says {size} bytes, and has {length - _FRAME_BYTES}")
        start = offset + _FLAG_AND_SIZE_BYTES
        records.append(WkRecord(size, body[start : start + size], checksum))
    return tuple(records)


def _unpacked(content: bytes, size: int, table: bytes, flag: int, checksum: int) -> memoryview | None:
    """The bytes of a compressed record; None where they do not have its checksum."""
    if len(table) < TABLE_BYTES or not flag & COMPRESSED or flag & ~_KNOWN_FLAGS or size % 2:
        return None
    payload = unpack(content, size, table, runs=bool(flag & HAS_RUNS))
    if payload is None:
        return None
    words = np.frombuffer(payload, "<u2")
    return memoryview(payload) if int(np.bitwise_xor.reduce(words)) == checksum else None
