"""The ops of the compiler's final program, as its text has them: which are in layer groups, and of what types."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OP = re.compile(
    r'^\s*(?:%\d+(?::\d+)? = )?"tpu\.(?P<kind>\w+)"\(.* : \((?P<read>.*)\) -> (?P<made>.*) loc\((?P<at>.*)\)$'
)
_TYPE = re.compile(r"tensor<((?:\d+x)+)([^,:>]*)")
_LOCATION = re.compile(r'^(#loc\d*) = loc\("(.*)"\)$', re.M)
_NO_LAYERS = ("Group", "Load", "Store", "Yield")
_INTEGERS = ("!quant.uniform<i8", "!quant.uniform<u8", "si8", "ui8", "i8")


@dataclass(frozen=True)
class FinalOp:
    """A layer. operands: shapes of what it reads, without those that are missing. is_integer: its weights, or else
    what it reads first, are of 8 bits. text: its line."""

    name: str
    kind: str
    in_group: bool
    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]
    is_integer: bool
    text: str


def final_ops(final: str) -> tuple[FinalOp, ...]:
    """The layers in the order of the text."""
    locations = dict(_LOCATION.findall(final))
    ops: list[FinalOp] = []
    inside = False
    for line in final.splitlines():
        if '"tpu.Group"(' in line:
            inside = True
        elif inside and line.lstrip().startswith("})"):
            inside = False
        match = _OP.match(line)
        if match is None or match["kind"] in _NO_LAYERS:
            continue
        read, made = _TYPE.findall(match["read"]), _TYPE.findall(match["made"])
        if not read or not made:
            continue
        ops.append(
            FinalOp(
                locations.get(match["at"], match["at"].strip('"')),
                match["kind"],
                inside,
                tuple(_shape(dimensions) for dimensions, _ in read),
                _shape(made[0][0]),
                read[min(1, len(read) - 1)][1].startswith(_INTEGERS),
                line,
            )
        )
    return tuple(ops)


def _shape(dimensions: str) -> tuple[int, ...]:
    return tuple(int(each) for each in dimensions.split("x") if each)
