"""The time of compilation that the compiler writes into a model, replaced by 1970-01-01: equal builds, equal bytes.

Both kinds of model describe themselves in a FlatBuffers table behind a header, where the time is a string with its
length in front: as C's `asctime` writes it in a bmodel, as year to second in a cvimodel. A cvimodel's header holds
the MD5 of what follows it; a bmodel's holds sizes alone.
"""

from __future__ import annotations

import hashlib
import re

from nnkit.errors import ToolError

_BM_MAGIC = b"\xee\xaa\x55\xff"
_BM_HEADER_BYTES = 64  # magic, bytes of the header, of the table, of the binary part; reserved
_BM_TIME = re.compile(rb"\x19\0\0\0\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\n\0")
_BM_EPOCH = b"\x19\0\0\0Thu Jan  1 00:00:00 1970\n\0"
_CVI_MAGIC = b"CviModel"
_CVI_HEADER_BYTES = 48  # magic, bytes of the table, version (2 bytes), MD5, chip (16 bytes), 2 bytes of padding
_CVI_MD5 = slice(14, 30)
_CVI_TIME = re.compile(rb"\x13\0\0\0\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\0")
_CVI_EPOCH = b"\x13\0\0\x001970-01-01 00:00:00\0"


def without_time(model: bytes) -> bytes:
    """The model with the time of the epoch. Raises ToolError for a file that is not as this compiler writes it."""
    if model[:4] == _BM_MAGIC:
        end = _BM_HEADER_BYTES + int.from_bytes(model[8:12], "little")
        return model[:_BM_HEADER_BYTES] + _replaced(model[_BM_HEADER_BYTES:end], _BM_TIME, _BM_EPOCH) + model[end:]
    if model[:8] == _CVI_MAGIC:
        end = _CVI_HEADER_BYTES + int.from_bytes(model[8:12], "little")
        body = _replaced(model[_CVI_HEADER_BYTES:end], _CVI_TIME, _CVI_EPOCH) + model[end:]
        header = bytearray(model[:_CVI_HEADER_BYTES])
        header[_CVI_MD5] = hashlib.md5(body, usedforsecurity=False).digest()
        return bytes(header) + body
    raise _unknown("it begins like neither a bmodel nor a cvimodel")


def _replaced(table: bytes, time: re.Pattern[bytes], epoch: bytes) -> bytes:
    changed, count = time.subn(lambda _: epoch, table)
    if count != 1:
        raise _unknown(f"it states the time of its compilation {count} times, once is expected")
    return changed


def _unknown(reason: str) -> ToolError:
    return ToolError(
        f"the compiler's model cannot be read: {reason}",
        where="the model",
        remedy="use the compiler version that `nnkit doctor --install tpu` brings",
    )
