"""Compiled networks for tests: files with the known fields of the header alone, or with nodes and records."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any


def crc_bit_by_bit(data: bytes) -> int:
    """The CRC as its parameters define it: reflected polynomial EDB88320, start 0, complemented at the end."""
    state = 0
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0xEDB88320 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def made(segments: int, body: bytes = b"instructions" * 20) -> bytes:
    """A file with the known fields of the header."""
    head = bytearray(200)
    head[49] = segments
    struct.pack_into("<II", head, 52, len(head), len(body))
    data = bytes(head) + body
    return struct.pack("<I", crc_bit_by_bit(data[4:])) + data[4:] + b"padding"


@dataclass(frozen=True)
class Numbers:
    """What a convolution (or one of its groups) holds: codes [O, I, kh, kw], biases, one multiplier."""

    codes: Any
    biases: Sequence[int]
    multiplier: int


def records_8(numbers: Numbers) -> list[bytes]:
    """Records of 8 bits, for 4 outputs each, byte by byte as the format is described."""
    outputs, inputs, high, wide = numbers.codes.shape
    records = []
    for first in range(0, outputs, 4):
        live = [o for o in range(first, first + 4) if o < outputs]
        record = b"".join(struct.pack("<iIII", numbers.biases[o], numbers.multiplier, 0, 0) for o in live)
        record = record.ljust(64, b"\0")
        for y, x, block, o in product(range(high), range(wide), range(-(-inputs // 16)), range(first, first + 4)):
            for i in range(16 * block, 16 * block + 16):
                record += bytes([int(numbers.codes[o, i, y, x]) if o < outputs and i < inputs else 0x80])
        records.append(record)
    return records


def records_16(numbers: Numbers) -> list[bytes]:
    """Records of 16 bits, one an output. A code is GFPQ's: sign << 12 | k."""
    outputs, inputs, high, wide = numbers.codes.shape
    blocks = list(product(range(high), range(wide), range(-(-inputs // 8))))
    slots = -(-len(blocks) // 4)
    records = []
    for o in range(outputs):
        record = bytearray(64 * (1 + slots))
        struct.pack_into("<iI", record, 0, numbers.biases[o], numbers.multiplier)
        for at in range(64, len(record), 2):
            struct.pack_into("<H", record, at, 0x8000)
        for n, (y, x, block) in enumerate(blocks):
            at = 64 + 64 * (n % slots) + 16 * (n // slots)
            for lane, i in enumerate(range(8 * block, min(8 * block + 8, inputs))):
                code = int(numbers.codes[o, i, y, x])
                struct.pack_into("<H", record, at + 2 * lane, code >> 12 << 15 | (code & 0xFFF) << 2)
        records.append(bytes(record))
    return records


def records_connected(codes: Any) -> list[bytes]:
    """Records of a fully connected layer, 8 bits, for 48 outputs each. codes: [O, I]."""
    outputs, inputs = codes.shape
    records = []
    for first in range(0, outputs, 48):
        live = range(first, min(first + 48, outputs))
        record = b"".join(struct.pack("<i", o) for o in live)
        record = record.ljust(-(-len(record) // 64) * 64, b"\0")
        for block, group, o in product(range(-(-len(live) // 4)), range(-(-inputs // 16)), range(4)):
            output = first + 4 * block + o
            for i in range(16 * group, 16 * group + 16):
                record += bytes([int(codes[output, i]) if output < outputs and i < inputs else 0x80])
        records.append(record)
    return records


Node = tuple[str, tuple[int, int, int]]
"""A node's name; height, width, channels."""


def compiled(
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    records: Sequence[bytes | None],
    *,
    generation: tuple[int, int] = (1, 2),
    compressed: Collection[int] = (),
) -> bytes:
    """A file of one segment. records: payloads, None for an empty entry of the index.

    compressed: which of them are to look compressed: a flag, and content that nobody can read.
    """
    table = bytes([0, len(inputs), len(outputs), 0]).ljust(16, b"\0")
    for name, hwc in (*inputs, *outputs):
        table += struct.pack("<4I", *hwc, 0) + name.encode()[:31].ljust(32, b"\0") + bytes(16)
    region, index = b"", b""
    for number, payload in enumerate(records):
        record = b"" if payload is None else _record(payload, number in compressed)
        index += struct.pack("<II", len(region) if record else 0, len(record))
        region += record
    head = bytearray(192)
    head[24:26] = bytes(generation)
    head[49] = 1
    struct.pack_into("<II", head, 52, 192 + len(table), len(region) + len(index))
    struct.pack_into("<I", head, 84, len(region))
    struct.pack_into("<II", head, 96, len(region), len(index))
    data = bytes(head) + table + region + index
    return struct.pack("<I", crc_bit_by_bit(data[4:])) + data[4:]


def _record(payload: bytes, compressed: bool) -> bytes:
    """Flag and size, content, and the exclusive or of the content's 16-bit words."""
    checksum = 0
    for (word,) in struct.iter_unpack("<H", payload.ljust(len(payload) + len(payload) % 2, b"\0")):
        checksum ^= word
    content = b"\x80\x00" + bytes(40) if compressed else payload
    return struct.pack("<BH", 0x51 * compressed, len(payload)) + content + struct.pack("<H", checksum)


def resealed(data: bytes) -> bytes:
    """The file with the checksum of its content."""
    head, body = struct.unpack_from("<II", data, 52)
    return struct.pack("<I", zlib.crc32(data[4 : head + body], 0xFFFFFFFF)) + data[4:]
