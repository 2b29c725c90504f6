"""The compiled network, `.wk`: what can be checked of a format that has no public description.

Known from files of the vendor: a header of 192 bytes; the CRC-32 (polynomial EDB88320, initial value 0, final
complement) in its first four bytes, over bytes 4 to u32@52 + u32@56; the number of segments in byte 49. Where the
chip's generation stands in it is not known, so that a file for the wrong chip is not told apart.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from nnkit.errors import ToolError

HEADER_BYTES = 192
_SEGMENTS_AT, _HEAD_BYTES_AT, _BODY_BYTES_AT = 49, 52, 56
_INITIAL = 0xFFFFFFFF  # zlib complements the start value that it is given: this is an initial 0


@dataclass(frozen=True)
class WkFile:
    """What the header says, and what was computed."""

    size_bytes: int
    segments: int
    crc: int
    computed_crc: int

    @property
    def intact(self) -> bool:
        """Whether the checksum holds."""
        return self.crc == self.computed_crc


def read_wk(path: Path) -> WkFile:
    """Read and check a file. Raises ToolError where it is no `.wk`, or is cut off."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ToolError(f"the compiled network cannot be read: {error.strerror}", where=path.name) from error
    if len(data) < HEADER_BYTES:
        raise _broken(path, f"it has {len(data)} bytes, a header alone has {HEADER_BYTES}")
    (crc,) = struct.unpack_from("<I", data, 0)
    head, body = struct.unpack_from("<I", data, _HEAD_BYTES_AT)[0], struct.unpack_from("<I", data, _BODY_BYTES_AT)[0]
    covered = head + body
    if not HEADER_BYTES <= covered <= len(data):
        raise _broken(path, f"its header speaks of {covered} bytes, it has {len(data)}")
    return WkFile(len(data), data[_SEGMENTS_AT], crc, zlib.crc32(data[4:covered], _INITIAL))


def check_wk(path: Path, npu_segments: int, all_segments: int) -> WkFile:
    """Read a file and hold it to its checksum and the number of segments. Raises ToolError where it fails.

    The vendor's runtime lists the segments that the NNIE runs; whether the header counts the others too is not known,
    so that either number is taken.
    """
    found = read_wk(path)
    if not found.intact:
        raise _broken(path, f"its checksum is {found.crc:08x}, its content has {found.computed_crc:08x}")
    if found.segments not in (npu_segments, all_segments):
        raise ToolError(
            f"the mapper made {found.segments} segments, nnkit divided the network into {all_segments}, of which the "
            f"NNIE runs {npu_segments}",
            where=path.name,
            remedy="compare segments.json with the mapper's log, and move tags where the two differ",
        )
    return found


def _broken(path: Path, reason: str) -> ToolError:
    return ToolError(f"the compiled network is damaged: {reason}", where=path.name, remedy="run the mapper again")
