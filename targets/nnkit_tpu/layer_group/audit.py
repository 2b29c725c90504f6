"""The local memory of a compiler's final program, replayed: does every op still find what it reads?

The compiler checks groups that it forms; groups that it is given it takes on trust in places, and may then place two
live tensors on the same bytes without a word: the program runs and its results are wrong. The final program states
every address, size, pipeline stage and timestep, so this can be seen without running anything: the steps are replayed
on a shadow of one lane, in which every byte remembers who wrote it last. In a step, what is loaded and what is
written is unusable from its beginning, as transfers and arithmetic run side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnkit_tpu.chips import Chip

_ITEM = re.compile(r'^\s*(%\d+) = "tpu\.(\w+)"\(([^)]*)\) \{.*?ginfo = #tpu\.lg<(.*?)>[,}]')
_PLACE = re.compile(r"out_addr = (\d+), out_size = (\d+), buffer_addr = (\d+), buffer_size = (\d+)")
_WEIGHT = re.compile(r'^\s*(%\d+) = "top\.Weight"')
_FLOW = re.compile(r"flow = \[([-\d, ]*)\]")
_NOBODY = -1
_IN_PLACE = frozenset(
    {"Reshape", "Relu", "LeakyRelu", "PReluOp", "Cast", "RequantInt", "RequantIntAxis", "Add", "Concat"}
)


@dataclass(frozen=True)
class _Item:
    """A line of a group: what it reads and where it writes. hold: weights, loaded for the first slice alone."""

    value: str
    kind: str
    operands: tuple[str, ...]
    address: int
    size: int
    buffer_address: int
    buffer_size: int
    stage: int
    hold: bool


@dataclass
class _Group:
    items: dict[int, _Item] = field(default_factory=dict)
    steps: list[list[int]] = field(default_factory=list)
    slices: int = 1
    stages: int = 3
    unread: str = ""


@dataclass(frozen=True)
class Audit:
    """The replay of a final program's groups.

    groups: how many there are. actions: loads, ops and stores that were replayed, each of one slice. conflicts: a
    sentence for each tensor that is read where it is not there yet or not any more, and for each op that writes over
    what it reads; at most as many as were asked for. not_followed: a sentence for each group that could not be
    replayed, because a line of it is not as this compiler writes it: nothing is said of these.
    """

    groups: int
    actions: int
    conflicts: tuple[str, ...]
    not_followed: tuple[str, ...] = ()


def audit_local_memory(final: str, chip: Chip, *, most: int = 5) -> Audit:
    """Replay the groups of a final program; the replay ends with the group in which there are `most` conflicts."""
    conflicts: list[str] = []
    not_followed: list[str] = []
    groups = _groups(final)
    actions = 0
    for number, group in enumerate(groups):
        if group.unread:
            not_followed.append(f"group {number} cannot be followed: {group.unread}")
            continue
        replay = _Replay(group, chip)
        conflicts += [f"group {number}: {problem}" for problem in replay.problems(most - len(conflicts))]
        actions += replay.actions
        if len(conflicts) >= most:
            break
    return Audit(len(groups), actions, tuple(conflicts), tuple(not_followed))


def _groups(final: str) -> list[_Group]:
    """The groups in the order of the text."""
    groups: list[_Group] = []
    weights: set[str] = set()
    current: _Group | None = None
    for line in final.splitlines():
        weight = _WEIGHT.match(line)
        if weight is not None:
            weights.add(weight.group(1))
        elif '= "tpu.Group"(' in line:
            current = _Group()
        elif current is not None and line.lstrip().startswith("})"):
            groups.append(_finished(current, line))
            current = None
        elif current is not None:
            match = _ITEM.match(line)
            place = _PLACE.search(line)
            if match is None or place is None:
                if ' = "tpu.' in line and not current.unread:
                    current.unread = f"a line that cannot be read: {line.strip()[:100]}"
                continue
            value, kind, operands, info = match.groups()
            read = tuple(operand.strip() for operand in operands.split(",") if operand.strip())
            numbers = {key: int(number) for key, number in re.findall(r"\b(id|stage) = (-?\d+)", info)}
            address, size, buffer_address, buffer_size = (int(text) for text in place.groups())
            hold = kind == "Load" and read[0] in weights
            stage = numbers.get("stage", 1)
            item = _Item(value, kind, read, address, size, buffer_address, buffer_size, stage, hold)
            current.items[numbers.get("id", len(current.items))] = item
    return groups


def _finished(group: _Group, line: str) -> _Group:
    """The group with its steps: in `flow`, negative numbers open a step and the others are items."""
    flow = _FLOW.search(line)
    for text in flow.group(1).split(",") if flow is not None else []:
        number = int(text)
        if number < 0:
            group.steps.append([])
        elif group.steps:
            group.steps[-1].append(number)
    missing = set(group.items) - {number for step in group.steps for number in step}
    if missing and not group.unread:
        group.unread = f"{group.items[min(missing)].value} is in none of its steps"
    for axis in "ncdhw":
        sections = re.search(rf"\b{axis}secs = (\d+)", line)
        group.slices *= int(sections.group(1)) if sections else 1
    stages = re.search(r"swpipl_stage_num = (\d+)", line)
    group.stages = int(stages.group(1)) if stages else 3
    return group


class _Replay:
    """One group's steps on the shadow of a lane."""

    def __init__(self, group: _Group, chip: Chip) -> None:
        self.group, self.chip = group, chip
        self.owner = np.full(chip.lane_bytes, _NOBODY, np.int64)
        self.by_value: Mapping[str, _Item] = {item.value: item for item in group.items.values()}
        self.tags: dict[tuple[str, int], int] = {}
        self.actions = 0

    def problems(self, most: int) -> list[str]:
        """Up to `most` sentences."""
        problems: list[str] = []
        for item in self.group.items.values():
            end = max(item.address + item.size, item.buffer_address + item.buffer_size)
            if end > self.chip.lane_bytes:
                problems.append(f"{item.kind} {item.value} ends at {end} of {self.chip.lane_bytes} bytes")
        if problems:
            return problems[:most]
        for turn in range(self.group.slices + self.group.stages - 1):
            for step in self.group.steps:
                active = []
                for item in (self.group.items[number] for number in step if number in self.group.items):
                    part = turn - item.stage
                    if 0 <= part < self.group.slices and not (item.hold and part):
                        active.append((item, part))
                problems += self._step(active)
                if len(problems) >= most:
                    return problems[:most]
        return problems

    def _step(self, active: Sequence[tuple[_Item, int]]) -> list[str]:
        problems: list[str] = []
        self.actions += len(active)
        loads = [(item, part) for item, part in active if item.kind == "Load"]
        stores = [(item, part) for item, part in active if item.kind == "Store"]
        ops = [(item, part) for item, part in active if item.kind not in ("Load", "Store")]
        for item, _ in loads:
            self.owner[item.address : item.address + item.size] = _NOBODY
        for item, part in ops:
            problems += self._reads(item, part)
            problems += self._overlaps(item)
            self.owner[item.buffer_address : item.buffer_address + item.buffer_size] = _NOBODY
            self.owner[item.address : item.address + item.size] = self._tag(item, part)
        for item, part in stores:
            problems += self._reads(item, part)
        for item, part in loads:
            self.owner[item.address : item.address + item.size] = self._tag(item, part)
        return problems

    def _reads(self, item: _Item, part: int) -> list[str]:
        problems = []
        for operand in item.operands:
            source = self.by_value.get(operand)
            if source is None:
                continue
            held = self.owner[source.address : source.address + source.size]
            foreign = int(np.count_nonzero(held != self._tag(source, 0 if source.hold else part)))
            if foreign:
                lost = f"{foreign} of its {source.size} bytes a lane are gone"
                problems.append(f"{item.kind} {item.value} reads {source.value}, {lost}")
        return problems

    def _overlaps(self, item: _Item) -> list[str]:
        """Whether the op writes over what it is reading."""
        problems = []
        written = [("output", item.address, item.size), ("buffer", item.buffer_address, item.buffer_size)]
        for operand in item.operands:
            source = self.by_value.get(operand)
            if source is None:
                continue
            for what, start, size in written:
                meets = start < source.address + source.size and source.address < start + size
                if meets and not (what == "output" and item.kind in _IN_PLACE):
                    problems.append(f"{item.kind} {item.value} has its {what} on {source.value}, which it reads")
        return problems

    def _tag(self, item: _Item, part: int) -> int:
        return self.tags.setdefault((item.value, part), len(self.tags))
