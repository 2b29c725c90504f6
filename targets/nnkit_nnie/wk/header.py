"""The compiled network, `.wk`: its header, in a format that has no public description.

Known from files of the vendor: a header of 192 bytes; the CRC-32 (polynomial EDB88320, initial value 0, final
complement) in its first four bytes, over bytes 4 to u32@52 + u32@56; the number of segments in byte 49; in bytes 24
and 25, very likely, the generation of the NNIE (1 and 2 in all files seen, which are of mappers for NNIE 1.2).
`nodes` and `records` read what follows.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from nnkit.errors import ToolError
from nnkit.reading import read_regular_file
from nnkit_nnie.wk.nodes import HEADER_BYTES

_GENERATION_AT, _SEGMENTS_AT, _HEAD_BYTES_AT, _BODY_BYTES_AT = 24, 49, 52, 56
_MAX_BYTES = 1 << 30
_INITIAL = 0xFFFFFFFF  # zlib complements the start value that it is given: this is an initial 0


@dataclass(frozen=True)
class WkFile:
    """What the header says, and what was computed. data: the whole file. head_bytes: header and node table."""

    data: bytes
    generation: str
    segments: int
    head_bytes: int
    crc: int
    computed_crc: int

    @property
    def size_bytes(self) -> int:
        """The file's size."""
        return len(self.data)

    @property
    def intact(self) -> bool:
        """Whether the checksum holds."""
        return self.crc == self.computed_crc


def read_wk(path: Path) -> WkFile:
    """Read a file's header.

    Raises ToolError where it is no `.wk`, or is cut off; UserFileError, ModelError where it is no file to read.
    """
    data = read_regular_file(path, what="the compiled network", limit_bytes=_MAX_BYTES)
    if len(data) < HEADER_BYTES:
        raise _other_file(path, f"it has {len(data)} bytes, a header alone has {HEADER_BYTES}")
    (crc,) = struct.unpack_from("<I", data, 0)
    head, body = struct.unpack_from("<I", data, _HEAD_BYTES_AT)[0], struct.unpack_from("<I", data, _BODY_BYTES_AT)[0]
    covered = head + body
    if not HEADER_BYTES <= covered <= len(data):
        raise _other_file(path, f"its header would speak of {covered} bytes, it has {len(data)}")
    generation = f"{data[_GENERATION_AT]}.{data[_GENERATION_AT + 1]}"
    computed = zlib.crc32(memoryview(data)[4:covered], _INITIAL)
    return WkFile(data, generation, data[_SEGMENTS_AT], head, crc, computed)


def check_wk(path: Path, npu_segments: int, all_segments: int) -> WkFile:
    """Read a file and hold it to its checksum and the number of segments. Raises ToolError where it fails.

    The vendor's runtime lists the segments that the NNIE runs; whether the header counts the others too is not known,
    so that either number is taken.
    """
    wk = read_wk(path)
    check_sum(wk, path)
    if wk.segments not in (npu_segments, all_segments):
        raise ToolError(
            f"the mapper made {wk.segments} segments, nnkit divided the network into {all_segments}, of which the "
            f"NNIE runs {npu_segments}",
            where=path.name,
            remedy="compare segments.json with the mapper's log, and move tags where the two differ",
        )
    return wk


def check_sum(wk: WkFile, path: Path) -> None:
    """Raises ToolError where the checksum of a file does not hold."""
    if not wk.intact:
        raise damaged(path, f"its checksum is {wk.crc:08x}, its content has {wk.computed_crc:08x}")


def _other_file(path: Path, reason: str) -> ToolError:
    return ToolError(
        f"this is no compiled network, or one that is cut off: {reason}",
        where=path.name,
        remedy="name the .wk that the mapper wrote; where it is that one, run the mapper again",
    )


def damaged(path: Path, reason: str) -> ToolError:
    """The error of a file that is not what the mapper wrote."""
    return ToolError(f"the compiled network is damaged: {reason}", where=path.name, remedy="run the mapper again")
