"""Node table and records of compiled networks: a vendor's file, and damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from nnie_wk_files import Numbers, compiled, records_8, records_16

from nnkit_nnie.wk.compressed import unpack
from nnkit_nnie.wk.header import WkFile, read_wk
from nnkit_nnie.wk.layout import RecordLayout
from nnkit_nnie.wk.nodes import read_nodes
from nnkit_nnie.wk.records import read_records

MNIST = Path("models", "enet_cityscapes", "inst_mnist_cycle.wk")
RETINAFACE = Path("models", "retinaface_mnet", "mnet_mergebn_640L_inst.wk")


def nodes_of(wk: WkFile) -> list[str]:
    return [f"{node.sort} {node}" for node in read_nodes(wk.data[: wk.head_bytes], wk.segments)]


def test_nodes_of_real_files(shared_dir: Path) -> None:
    assert nodes_of(read_wk(shared_dir / MNIST)) == ["input data 28x28x1", "output prob 1x1x10"]
    nodes = nodes_of(read_wk(shared_dir / RETINAFACE))
    assert nodes[0] == "input data 640x640x3"
    assert nodes[1:4] == [f"output face_rpn_bbox_pred_stride{s} {640 // s}x{640 // s}x8" for s in (32, 16, 8)]
    assert nodes[7:] == [f"output face_rpn_cls_prob_reshape_strid {640 // s}x{640 // s}x4" for s in (32, 16, 8)]


def test_records_of_a_real_file(shared_dir: Path) -> None:
    """Beside empty entries; 1,387 and 18 of them are compressed. All are read, and have the mapper's own checksum."""
    for file, count in ((RETINAFACE, 1918), (MNIST, 30)):
        wk = read_wk(shared_dir / file)
        records = read_records(wk.data, wk.head_bytes)
        assert len(records) == count
        for record in records:
            assert record.payload is not None
            assert len(record.payload) == record.size_bytes
            assert int(np.bitwise_xor.reduce(np.frombuffer(record.payload, "<u2"))) == record.checksum


def test_a_compressed_record_by_hand() -> None:
    """Codes and single bits between them, written out from the description; and streams that are none."""
    table = bytes(range(100, 137))
    #          extra  104     108...  136          7                1 or 2 of 100   end
    plain = "1" + "101000" + "110000" + "111011110" + "111100000111" + "0" + "001" + "000" + "011" + "111011111"
    assert unpack(bits(plain), 8, table, runs=False) == bytes([104, 112, 136, 7, 100, 100, 100, 102])
    runs = "0" + "101000" + "011" + "100" + "111001" + "111010000" + "111011110" + "1" + "111011111"
    assert unpack(bits(runs), 17, table, runs=True) == bytes([100] * 13 + [101, 118, 119, 133])
    assert unpack(bits(runs), 16, table, runs=True) is None
    assert unpack(bits(runs), 18, table, runs=True) is None
    assert unpack(bits(runs[:20]), 17, table, runs=True) is None
    assert unpack(b"", 17, table, runs=True) is None
    end = bits("0" + "111011111")
    assert unpack(end, 0, table, runs=True) == b""
    assert unpack(end + bytes(1 << 20), 0, table, runs=True) is None  # before it is written out bit by bit


def bits(text: str) -> bytes:
    """The first bit is the lowest of the first byte."""
    return int(text[::-1], 2).to_bytes(-(-len(text) // 8), "little")


@pytest.mark.parametrize("shape", [(5, 17, 3, 3), (4, 16, 1, 1), (1, 1, 3, 3), (3, 40, 1, 2)])
@pytest.mark.parametrize("bits", [8, 16])
def test_layouts(bits: int, shape: tuple[int, int, int, int]) -> None:
    """What is written value by value is read again."""
    codes = np.random.default_rng(3).integers(0, 256 if bits == 8 else 8192, shape)
    biases = [-(2**31), 2**31 - 1, -1, 7, 0][: shape[0]]
    numbers = Numbers(codes, biases, 2**32 - 1)
    written = records_8(numbers) if bits == 8 else records_16(numbers)
    layout = RecordLayout(bits, shape)
    assert [len(record) for record in written] == [layout.size_bytes] * layout.records
    read = [layout.read(memoryview(record), index) for index, record in enumerate(written)]
    assert np.array_equal(np.concatenate([each.codes for each in read]), codes)
    assert [int(b) for each in read for b in each.biases] == biases
    assert {int(m) for each in read for m in each.multipliers} == {2**32 - 1}


def changed(data: bytes, at: int, value: int) -> bytes:
    copy = bytearray(data)
    struct.pack_into("<I", copy, at, value)
    return bytes(copy)


SOUND = compiled([("data", (4, 4, 3))], [("out", (4, 4, 8))], [b"x" * 128, None, b"y" * 64])
BODY = 192 + 16 + 2 * 64
INDEX = BODY + 128 + 5 + 64 + 5


def test_what_is_sound_is_read() -> None:
    records = read_records(SOUND, BODY)
    assert [(r.size_bytes, bytes(r.payload or b"")) for r in records] == [(128, b"x" * 128), (64, b"y" * 64)]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (84, 1 << 31, "its parameters have 2147483648 bytes"),
        (96, 1 << 31, "index of 24 bytes at 2147483648"),
        (100, 23, "index of 23 bytes"),
        (100, 0xFFFFFFF8, "index of 4294967288 bytes"),
        (INDEX, 1 << 30, "record 0 .* leaves the parameters"),
        (INDEX + 4, 4, "record 0 .* leaves the parameters"),
        (INDEX + 4, 140, "record 0 says 128 bytes, and has 135"),
        (INDEX + 16, 3, "record 2 .* overlaps"),
        (BODY, 0x00FFFF00, "record 0 says 65535 bytes"),
    ],
)
def test_damaged_records(at: int, value: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_records(changed(SOUND, at, value), BODY)


def test_damaged_nodes() -> None:
    for head in (b"", SOUND[:192], SOUND[:200], SOUND[: BODY - 1]):
        with pytest.raises(ValueError, match="cut off"):
            read_nodes(head, 1)
    with pytest.raises(ValueError, match="cut off"):
        read_nodes(SOUND[:BODY], 255)
    with pytest.raises(ValueError, match=f"ends at byte {BODY}, and what follows begins at {BODY + 4}"):
        read_nodes(SOUND[: BODY + 4], 1)


def test_an_index_of_more_entries_than_any_network_has() -> None:
    """Eight bytes an entry, all of no length; so many of length 5 would be as many objects."""
    data = bytearray(SOUND[:BODY]) + bytes(8 * ((1 << 20) + 1))
    for at, value in ((84, 0), (96, 0), (100, len(data) - BODY)):
        struct.pack_into("<I", data, at, value)
    with pytest.raises(ValueError, match="its index has 1048577 entries"):
        read_records(bytes(data), BODY)
    struct.pack_into("<I", data, 100, len(data) - BODY - 8)
    assert read_records(bytes(data), BODY) == ()
