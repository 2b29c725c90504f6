"""Compiled networks for tests: files with the known fields of the header, and nothing in them."""

from __future__ import annotations

import struct


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
