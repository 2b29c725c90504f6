"""The compiler's own files: its group cache, its cycle profile, and the traffic of its final program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from nnkit.errors import ToolError
from nnkit_tpu.layer_group.from_lowered import LoweredFunction
from nnkit_tpu.layer_group.slices import SliceCount

_TRANSFER = re.compile(r"(\w+)\|GDMA_\w+\|s:(\d+)\|b:\d+\|g:\d+\|e:(\d+)\|t:(\d+)\|dr:(\d)\|sz:(\d+)")
_COMPUTE = re.compile(r"^(\w+)_(\d+)\|\w+\|s:(\d+)\|b:\d+\|g:\d+\|e:(\d+)\|t:(\d+)(?!\|dr)", re.M)
_END = re.compile(r"API_END total_cycle:(\d+)")
_SLICES = re.compile(r"\b([nchdw])_slice = \[([\d, ]*)\]")
_TYPE = re.compile(r"tensor<((?:\d+x)+)(?:!quant\.\w+<)?[a-z]+(\d+)")
_NAMED_OP = re.compile(r'\s*%\d+ = "tpu\.(\w+)"\(.* loc\((.*)\)$')
_FINAL_OP = re.compile(r'"(tpu|top)\.(\w+)"')


@dataclass(frozen=True)
class InjectedGroup:
    """Ops first .. last of a function, numbered in its order, and their slices; None: the compiler looks for them."""

    first: int
    last: int
    slices: SliceCount | None


@dataclass(frozen=True)
class Command:
    """What an engine does from cycle `start` up to `end`. label: kind and number of the op, as the profile has it;
    of transfers `Load` or `Store` with a number of its own where they belong to a group."""

    computes: bool
    label: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Profile:
    """The simulator's cycles. op_cycles: compute of each op, in the order of the final program, as (kind, cycles).

    commands: of both engines in the order of the file.
    """

    end_cycles: int
    dma_cycles: int
    load_bytes: int
    store_bytes: int
    op_cycles: tuple[tuple[str, int], ...]
    transfers: tuple[tuple[int, int], ...]
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Traffic:
    """Loads and stores of the final program, and the bytes they move over all slices."""

    loads: int
    stores: int
    load_bytes: int
    store_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes both ways."""
        return self.load_bytes + self.store_bytes


def group_cache_name(program: str, chip: str, mode: str) -> str:
    """The file that the compiler reads and writes in its working folder."""
    return f"{program}_{chip}_{mode.lower()}.layer_group_cache.json"


def write_group_cache(functions: Sequence[LoweredFunction], groups: Mapping[str, Sequence[InjectedGroup]]) -> str:
    """Our groups, by function, in the compiler's format. Ops in no group are single layers on global memory."""
    document: dict[str, Any] = {"opt": 2, "total subfunc": len(functions)}
    for number, function in enumerate(functions):
        names = [*(op.output for op in function.graph.ops), "func.return"]
        starts = {group.first: group for group in groups.get(function.name, ())}
        grouped, single = [], []
        index = position = 0
        while position < len(names):
            group = starts.get(position)
            if group is None:
                single.append({"index": index, "func_idx": position, "group_cost": 0, "loc": names[position]})
                position += 1
            else:
                n, h = group.slices or (0, 0)
                grouped.append(
                    {
                        "base_group_idx": 0,
                        "start_idx": group.first,
                        "end_idx": group.last,
                        "func_start_idx": group.first,
                        "func_end_idx": group.last,
                        "group_cost": 0,
                        "index": index,
                        "locs": names[group.first : group.last + 1],
                        "shape_secs": [n, 1, 1, h, 1] if group.slices else [0, 0, 0, 0, 0],
                    }
                )
                position = group.last + 1
            index += 1
        document[f"subfunc_{number}"] = {
            "subfunc idx": number,
            "GroupLayer": grouped,
            "GlobalLayer": single,
            "CyclePrefixSum": [],
        }
    return json.dumps(document, indent=1)


def read_groups(final: str, functions: Sequence[LoweredFunction]) -> dict[str, tuple[InjectedGroup, ...]]:
    """The groups of a final program, by function, with the slices that were really made.

    The compiler cuts into more slices than it is given where these do not fit its placement.
    """
    locations = _locations(final)
    place = {op.output: (f.name, index) for f in functions for index, op in enumerate(f.graph.ops)}
    result: dict[str, list[InjectedGroup]] = {function.name: [] for function in functions}
    members: list[tuple[str, int]] | None = None
    for line in final.splitlines():
        if '= "tpu.Group"(' in line:
            members = []
        elif members is not None and line.lstrip().startswith("})"):
            n, h = (re.search(rf"\b{axis}secs = (\d+)", line) for axis in "nh")
            if members and n is not None and h is not None:
                indices = [index for _, index in members]
                count = SliceCount(int(n.group(1)), int(h.group(1)))
                result[members[0][0]].append(InjectedGroup(min(indices), max(indices), count))
            members = None
        elif members is not None:
            match = _NAMED_OP.match(line)
            if match is not None and match.group(1) not in ("Load", "Store"):
                name = locations.get(match.group(2), match.group(2).strip('"'))
                if name in place:
                    members.append(place[name])
    return {name: tuple(sorted(groups, key=lambda group: group.first)) for name, groups in result.items()}


def read_profile(text: str) -> Profile:
    """A `compiler_profile_*.txt`. Raises ToolError where it names no end."""
    ends = _END.findall(text)
    if not ends:
        raise ToolError("the compiler's profile names no end", where="compiler_profile")
    transfers = _TRANSFER.findall(text)
    by_op: dict[int, tuple[str, int]] = {}
    for kind, number, _, _, cycles in _COMPUTE.findall(text):
        by_op[int(number)] = (kind, by_op.get(int(number), (kind, 0))[1] + int(cycles))
    for label, _, _, _, _, _ in transfers:
        kind, _, number = label.rpartition("_")
        if kind not in ("Load", "Store") and number.isdigit():
            by_op.setdefault(int(number), (kind, 0))
    return Profile(
        end_cycles=sum(int(end) for end in ends),
        dma_cycles=sum(int(item[3]) for item in transfers),
        load_bytes=sum(int(item[5]) for item in transfers if item[4] == "0"),
        store_bytes=sum(int(item[5]) for item in transfers if item[4] == "1"),
        op_cycles=tuple(by_op[number] for number in sorted(by_op)),
        transfers=tuple((int(item[5]), int(item[3])) for item in transfers),
        commands=_commands(text),
    )


def _commands(text: str) -> tuple[Command, ...]:
    """Those of every part of the program, one part after the other: each counts its cycles from 0."""
    commands: list[Command] = []
    offset = begin = 0
    for end in _END.finditer(text):
        part = text[begin : end.start()]
        for kind, number, start, stop, _ in _COMPUTE.findall(part):
            commands.append(Command(True, f"{kind}_{number}", offset + int(start), offset + int(stop) + 1))
        for label, start, stop, *_ in _TRANSFER.findall(part):
            commands.append(Command(False, label, offset + int(start), offset + int(stop) + 1))
        begin, offset = end.end(), offset + int(end.group(1))
    return tuple(commands)


def read_traffic(text: str) -> Traffic:
    """Loads, stores and bytes of a final program.

    A `Load` or `Store` of a group counts once and moves the bytes of all its slices (weights, which are not sliced,
    move once). A layer on global memory loads each operand and stores its result once: how it cuts them up inside the
    program does not say, so numbers of slices are not compared.
    """
    loads = stores = load_bytes = store_bytes = 0
    inside = False
    for line in text.splitlines():
        match = _FINAL_OP.search(line)
        if match is None:
            inside = inside and not line.lstrip().startswith("})")
            continue
        dialect, kind = match.groups()
        if dialect == "top" or kind in ("Yield", "GenericCpu"):
            continue
        if kind == "Group":
            inside = True
        elif kind in ("Load", "Store"):
            size = _transferred(line)
            if kind == "Load":
                loads, load_bytes = loads + 1, load_bytes + size
            else:
                stores, store_bytes = stores + 1, store_bytes + size
        elif not inside and "ginfo" not in line and kind != "Reshape":
            operands, _, results = line.rpartition(" -> ")
            read = [_bytes(tensor_type) for tensor_type in _TYPE.findall(operands.rpartition(" : (")[2])]
            loads, load_bytes = loads + len(read), load_bytes + sum(read)
            stores, store_bytes = (
                stores + 1,
                store_bytes + sum(_bytes(tensor_type) for tensor_type in _TYPE.findall(results)),
            )
    return Traffic(loads, stores, load_bytes, store_bytes)


def op_cycles_by_name(profile: Profile, functions: Sequence[LoweredFunction], final: str) -> Mapping[str, int]:
    """Compute cycles by op name; ops of the profile are taken in the order of the final program's text.

    Empty where the two do not match: then nothing is calibrated.
    """
    ordered = _ordered(functions, final)
    seen = [(kind, cycles) for kind, cycles in profile.op_cycles if kind != "Reshape"]
    if [kind for kind, _ in ordered] != [kind for kind, _ in seen]:
        return MappingProxyType({})
    return MappingProxyType({name: cycles for (_, name), (_, cycles) in zip(ordered, seen, strict=True) if cycles})


def named_commands(profile: Profile, functions: Sequence[LoweredFunction], final: str) -> tuple[Command, ...]:
    """The profile's commands with the names of ops as labels where they are known, else with the kind alone."""
    labels = {command.label for command in profile.commands}
    numbers = sorted(
        (int(number), kind)
        for kind, _, number in (label.rpartition("_") for label in labels)
        if kind not in ("Load", "Store", "Reshape") and number.isdigit()
    )
    ordered = _ordered(functions, final)
    names = {}
    if [kind for kind, _ in ordered] == [kind for _, kind in numbers]:
        names = {f"{kind}_{number}": name for (number, kind), (_, name) in zip(numbers, ordered, strict=True)}
    return tuple(
        Command(each.computes, names.get(each.label, each.label.rpartition("_")[0].lower()), each.start, each.end)
        for each in profile.commands
    )


def _ordered(functions: Sequence[LoweredFunction], final: str) -> list[tuple[str, str]]:
    """Kind and name of the ops that compute, as they stand in the final program."""
    locations = _locations(final)
    known = {op.output for function in functions for op in function.graph.ops}
    ordered: list[tuple[str, str]] = []
    for line in final.splitlines():
        match = _NAMED_OP.match(line)
        if match is None or match.group(1) in ("Load", "Store", "Group", "Reshape"):
            continue
        name = locations.get(match.group(2), match.group(2).strip('"'))
        if name in known:
            ordered.append((match.group(1), name))
    return ordered


def _locations(text: str) -> dict[str, str]:
    return dict(re.findall(r'^(#loc\d*) = loc\("(.*)"\)$', text, re.M))


def _transferred(line: str) -> int:
    """Bytes of a load or store over all slices."""
    sizes = {axis: [int(part) for part in text.split(",") if part.strip()] for axis, text in _SLICES.findall(line)}
    types = _TYPE.findall(line.rpartition(" : (")[2])
    if not types:
        return 0
    return prod(sum(sizes.get(axis, [1])) for axis in "nchdw") * max(int(types[0][1]) // 8, 1)


def _bytes(tensor_type: tuple[str, str]) -> int:
    return prod(int(part) for part in tensor_type[0].split("x") if part) * max(int(tensor_type[1]) // 8, 1)
