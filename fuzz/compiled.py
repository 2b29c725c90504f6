"""What the NNIE's mapper leaves: compiled networks (`.wk`), for `verify-wk`, and its dumps, for `compare --dumps`.

A `.wk` of the small build's own network, with records of every sort that is known: plain, compressed with a table
and with the last one, with runs and without. Its fields, its index, its records and their streams of bits are
damaged, and for most the checksum of the file is made right again.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.builds import RECIPE, built
from fuzz.damage import damaged_bytes, damaged_text

_HEADER_FIELDS = (24, 48, 52, 56, 84, 96, 100)
_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    37,
    64,
    191,
    192,
    255,
    65535,
    1 << 20,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
)
_FLAGS = (0, 1, 2, 16, 17, 64, 65, 80, 81, 255)
_NODES_AT = 192 + 16
_WORDS = ("nan", "inf", "-1e999", "1e38", "ffffffff", "80000000", "100000000", "-1", "0x", "", "\x00", "1_0", "٣")
_DUMP_NAMES = (
    "conv_output0_4_4_4_quant.linear.hex",
    "conv_output99999999999999999999_4_4_4_quant.linear.hex",
    "conv_group_0_output0_4_4_4_quant.linear.hex",
    "conv_group_²_weight-anti.float",
    "conv_group_99999999999999999999_weight-anti.float",
    "_weight-anti.float",
    "\udc80_weight-anti.float",
)


@dataclass(frozen=True)
class Seeds:
    """build: its folder. files: compiled networks of it. dumps: the mapper's, by name."""

    build: Path
    files: tuple[bytes, ...]
    dumps: dict[str, bytes]


def seeds(folder: Path) -> Seeds:
    """A build of four layers and what a mapper would make of it."""
    from nnkit_nnie.gfpq.ops import NnieWeighted

    recipe = RECIPE.replace("onnx_qdq: {}", "nnie: {chip: hi3516cv500, precision_table: false}")
    build = built(folder, _network(), recipe + "restructure: []\n", "nnie")
    ops = [op for op in build.program.ops if isinstance(op, NnieWeighted)]
    plain = [record for op in ops for record in _records(op)]
    ends: dict[str, Any] = {"inputs": [("x", (8, 8, 3))], "outputs": [("y", (1, 1, 5))]}
    dumps = {f"{op.layer}_weight-anti.float": _lines(op.weight.shape, "{:.6f}") for op in ops}
    dumps["conv_output0_4_4_4_quant.linear.hex"] = _lines((4, 4, 4), "{:08x}")
    dumps["conv_input0_3_8_8_anti_quant.linear.float"] = _lines((3, 8, 8), "{:.6f}")
    files = tuple(_compiled(ends, [_record(each, way, n) for n, each in enumerate(plain)]) for way in (0, 65, 1))
    return Seeds(build.folder, files, dumps)


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged file through its command."""
    from nnkit.commands.compare import compare_command
    from nnkit.commands.verify_wk import verify_wk_command

    if chance.random() < 0.8:
        path = folder / "x.wk"
        path.write_bytes(_damaged(chance.choice(given.files), chance))
        verify_wk_command(given.build, path, json=chance.random() < 0.5)
        return
    dumps = folder / "mapper_quant"
    dumps.mkdir()
    for name, content in given.dumps.items():
        (dumps / name).write_bytes(content)
    name = chance.choice(sorted(given.dumps))
    if chance.random() < 0.3:
        shutil.move(dumps / name, dumps / chance.choice(_DUMP_NAMES))
    elif chance.random() < 0.5:
        words = given.dumps[name].decode().split()
        words[chance.randrange(len(words))] = chance.choice(_WORDS) * chance.choice((1, 1, 50000))
        (dumps / name).write_bytes("\n".join(words).encode())
    else:
        (dumps / name).write_bytes(damaged_text(given.dumps[name].decode(), chance))
    compare_command(given.build, None, dumps=dumps, json=chance.random() < 0.5)


def _damaged(data: bytes, chance: Random) -> bytes:
    """One to three changes, most of them of a number that the file's layout hangs on."""
    from tests.helpers.nnie_wk_files import resealed

    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        kind = chance.randrange(6)
        body = int(struct.unpack_from("<I", data, 52)[0])
        index_at, index_bytes = struct.unpack_from("<II", data, 96)
        entry = body + index_at + 8 * chance.randrange(index_bytes // 8)
        offset, length = struct.unpack_from("<II", data, entry)
        if kind == 0:
            _put(changed, chance.choice(_HEADER_FIELDS), chance)
        elif kind == 1:
            _put(changed, chance.randrange(192, body - 3), chance)
        elif kind == 2:
            _put(changed, entry + chance.choice((0, 4)), chance)
        elif kind == 3 and length:
            changed[body + offset] = chance.choice(_FLAGS)
        elif kind == 4 and length:
            at = body + offset + chance.randrange(length)
            changed[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 5 and length:
            struct.pack_into("<H", changed, body + offset + 1, chance.choice((0, 1, 63, 64, 128, 65535)))
    result = bytes(changed)
    if chance.random() < 0.15:
        result = damaged_bytes(result, chance)
    if len(result) >= _NODES_AT and chance.random() < 0.9:
        result = resealed(result)
    return result


def _put(data: bytearray, at: int, chance: Random) -> None:
    (number,) = struct.unpack_from("<I", data, at)
    value = chance.choice((*_NUMBERS, number + 1, number - 1, number * 2, number + 8))
    struct.pack_into("<I", data, at, value & 0xFFFFFFFF)


def _network() -> bytes:
    """Two convolutions with strides, the second by groups, and two fully connected layers."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0).standard_normal
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w"], ["c"], name="conv", strides=[2, 2], pads=[1, 1, 1, 1]),
        make("Conv", ["c", "g"], ["s"], name="grouped", group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
        make("Flatten", ["s"], ["f"], name="flatten"),
        make("Gemm", ["f", "v"], ["h"], name="hidden"),
        make("Gemm", ["h", "u"], ["y"], name="y"),
    ]
    weights = {"w": draw((4, 3, 3, 3)), "g": draw((8, 2, 3, 3)), "v": draw((32, 50)), "u": draw((50, 5))}
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])]
    graph = helper.make_graph(nodes, "compiled", ends, result, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def _records(op: Any) -> list[bytes]:
    """A layer's records, unpacked."""
    from tests.helpers.nnie_wk_files import Numbers, records_8, records_connected

    if op.weight.ndim == 2:
        return records_connected(op.weight)
    parts = np.split(op.weight, op.groups)
    return [record for part in parts for record in records_8(Numbers(part, [0] * len(part), 1 << 20))]


def _record(payload: bytes, way: int, number: int) -> bytes:
    """Framed: plain (0), compressed (1), or compressed with runs (65); a table comes with every third."""
    checksum = int(np.bitwise_xor.reduce(np.frombuffer(payload, "<u2")))
    content, flag = payload, 0
    if way:
        flag = way | (16 if number % 3 == 0 else 0)
        table = bytes([0x80, *range(36)])
        content = (table if flag & 16 else b"") + _packed(payload, table, runs=way == 65)
    return struct.pack("<BH", flag, len(payload)) + content + struct.pack("<H", checksum)


def _packed(payload: bytes, table: bytes, *, runs: bool) -> bytes:
    """A stream of the code that `nnkit_nnie/wk/compressed.py` describes, without its codes for two bytes and more."""
    text, extra = "", 0
    codes = {table[0]: "000", table[1]: "100" if runs else "010"}
    for byte in (*payload, None):
        if len(text) >= extra:
            text, extra = text + "0", extra + 43 if extra else 34
        text += "111011111" if byte is None else codes.get(byte, f"1111{byte:08b}")
    return int(text[::-1], 2).to_bytes(-(-len(text) // 8), "little")


def _compiled(ends: dict[str, Any], records: Sequence[bytes]) -> bytes:
    """A whole file of records that are framed already."""
    from tests.helpers.nnie_wk_files import compiled, resealed

    head = compiled(**ends, records=[])
    region, index = b"", b""
    for record in records:
        index += struct.pack("<II", len(region), len(record))
        region += record
    data = bytearray(head)
    struct.pack_into("<I", data, 56, len(region) + len(index))
    struct.pack_into("<I", data, 84, len(region))
    struct.pack_into("<II", data, 96, len(region), len(index))
    return resealed(bytes(data) + region + index)


def _lines(shape: Sequence[int], form: str) -> bytes:
    whole = form.endswith("x}")
    return "\n".join(form.format(n if whole else n / 7) for n in range(int(np.prod(shape)))).encode()
