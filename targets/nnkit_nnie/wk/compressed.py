"""The code of compressed records: a table of frequent bytes, and a stream of bits.

Flags of a record: 1 compressed, 16 it brings a table (others use the last one before them), 64 its most frequent byte
comes in runs. A table has 37 bytes, the most frequent first; with runs the last three are 0 and mean nothing. Bits
are read from the lowest of each byte, numbers of several bits with the highest first:

    without runs                                with runs
    000, 001      one, two of the first byte    000 to 011    one to four of the first byte
    010 to 100    the second to fourth byte     100           the second byte
                                                101000        nine of the first byte
    101000 ...    the fifth byte, and so on     101001 ...    the third byte, and so on
    ... 111001                                  ... 111001
    1110 1xxxx    the 15 last bytes of the table, xxxx being which; 1110 11111 ends the record
    1111 ...      the byte of the next eight bits

Between codes stand single bits that carry nothing known: before the first code, and before the first code that begins
at bit 34 or later, bit 77, bit 120 and so on, 43 apart.

After the end the last byte is filled with zeros.

Source: found in a file that the vendor's mapper made; each of its 1,387 compressed records has its own checksum so.
"""

from __future__ import annotations

COMPRESSED, HAS_TABLE, HAS_RUNS = 1, 16, 64
TABLE_BYTES = 37

_FIRST_EXTRA, _EXTRA_APART = 34, 43
_MOST_BITS_A_BYTE, _MOST_BITS_BESIDES = 13, 64  # the longest code and its share of single bits; the end
_SHORT_BITS, _MIDDLE_BITS, _LONG_BITS, _BYTE_BITS = 3, 6, 9, 12
_FIRST_MIDDLE, _LAST_MIDDLE, _ESCAPE = 0b101000, 0b111001, 0b1111
_LAST_SHORT, _LONG_RUN, _END, _LONG_CODES = 0b100, 9, 15, 15


def unpack(content: bytes, size_bytes: int, table: bytes, *, runs: bool) -> bytes | None:
    """The bytes of a record. content: its stream of bits; size_bytes: how many bytes it gives.

    None where the stream is none of this code, or gives another number of bytes.
    """
    if 8 * len(content) > _MOST_BITS_A_BYTE * size_bytes + _MOST_BITS_BESIDES:
        return None  # before so many bits are written out
    stream = f"{int.from_bytes(content, 'little'):0{8 * len(content)}b}"[::-1]
    singles = 4 if runs else 2  # codes of three bits that stand for the first byte
    short = (*(table[:1] * (each + 1) for each in range(singles)), *(bytes([b]) for b in table[1 : 6 - singles]))
    rest = table[6 - singles : TABLE_BYTES - 3 * runs]
    middle = (table[:1] * _LONG_RUN, *(bytes([b]) for b in rest)) if runs else tuple(bytes([b]) for b in rest)
    last = table[TABLE_BYTES - 3 * runs - _LONG_CODES : TABLE_BYTES - 3 * runs]
    result, at, extra = bytearray(), 0, 0
    while len(result) <= size_bytes:
        if at >= extra:
            at, extra = at + 1, extra + _EXTRA_APART if extra else _FIRST_EXTRA
        code = stream[at : at + _BYTE_BITS]
        if len(code) < _LONG_BITS:
            return None
        if int(code[:_SHORT_BITS], 2) <= _LAST_SHORT:
            result += short[int(code[:_SHORT_BITS], 2)]
            at += _SHORT_BITS
        elif int(code[:_MIDDLE_BITS], 2) <= _LAST_MIDDLE:
            result += middle[int(code[:_MIDDLE_BITS], 2) - _FIRST_MIDDLE]
            at += _MIDDLE_BITS
        elif int(code[:4], 2) != _ESCAPE:
            which = int(code[5:_LONG_BITS], 2)
            if which == _END:
                return bytes(result) if len(result) == size_bytes else None
            result += last[which : which + 1]
            at += _LONG_BITS
        else:
            result += bytes([int(code[4:], 2)])
            at += _BYTE_BITS
    return None
