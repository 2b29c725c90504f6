"""The memory plan of a package, checked again: buffers lie within their regions, and none shares a byte with another
while both live, except as the order of accesses of a step allows.

Of a deployment the plan of all networks is held to that of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from nnkit.package.contradiction import ContradictionError, hold_equal
from nnkit.package.evidence import PLAN, REPORT, Evidence
from nnkit.package.overlaps import overlap_proofs

Buffer: TypeAlias = Mapping[str, Any]
_OF_ALL = ("context", "stack")
"""Kinds of buffers that the networks of a deployment have together."""
_USE = ("capacity_bytes", "peak_bytes", "lower_bound_bytes", "proven_optimal")


def check_plan(plan: Mapping[str, Any], file: str = PLAN) -> tuple[int, str]:
    """The number of buffers, and words about those that share bytes; none where no two do.

    Raises ContradictionError for the first claim that does not hold; KeyError, TypeError, ValueError or
    AttributeError where the plan is none.
    """
    proofs = overlap_proofs(plan) if plan.get("version", 1) > 1 else None
    overlaps = 0
    buffers: dict[str, Buffer] = plan["buffers"]
    _check_lives(plan, file)
    for name, use in plan["regions"].items():
        inside = [b for b in buffers.values() if b["region"] == name and b["size_bytes"]]
        if any(b["offset_bytes"] < 0 or b["size_bytes"] < 0 for b in inside):
            raise ContradictionError(file, f"a buffer lies before {name}")
        end = max((_end(b) for b in inside), default=plan.get("l3_weight_bytes", 0) if use["peak_bytes"] else 0)
        if end != use["peak_bytes"] or (use["capacity_bytes"] and use["peak_bytes"] > use["capacity_bytes"]):
            raise ContradictionError(
                file, f"{name} holds {end} bytes, {use['peak_bytes']} of {use['capacity_bytes']} are stated"
            )
        for first, second in _together(inside):
            overlaps += 1
            if proofs is None and _overtakes(plan, first, second):
                continue
            names = first["name"], second["name"]
            reasons = [proofs[pair] for pair in (names, names[::-1]) if pair in proofs] if proofs else []
            if "" in reasons:
                continue
            said = f"{first['name']!r} and {second['name']!r} share bytes of {name} at one time"
            raise ContradictionError(file, ": ".join((said, *reasons)))
    unknown = {b["region"] for b in buffers.values()} - set(plan["regions"])
    if unknown:
        raise ContradictionError(file, f"buffers lie in {', '.join(sorted(unknown))}, which is no region")
    _check_tensors(plan, file)
    if not overlaps:
        return len(buffers), ""
    whose = "the order of accesses allows" if proofs is not None else "the planner alone vouches for"
    return len(buffers), f"; {overlaps} {'are' if overlaps > 1 else 'is'} written in place, which {whose}"


def check_use(evidence: Evidence) -> None:
    """Raises ContradictionError where the report states other memory than the plan."""
    report, plan = evidence.report, evidence.plan
    for name in sorted(set(report["memory"]) | set(plan["regions"])):
        said, planned = (
            {key: side[name].get(key) for key in _USE} | {"limited": side[name].get("limited", True)}
            if name in side
            else None
            for side in (report["memory"], plan["regions"])
        )
        hold_equal(evidence.file(REPORT), said, evidence.file(PLAN), planned, at=f"memory.{name}")
    if "planner" in report:
        planned = {"name": plan["planner"], "weight_bytes": plan["l3_weight_bytes"], "notes": plan["notes"]}
        hold_equal(evidence.file(REPORT), report["planner"], evidence.file(PLAN), planned, at="planner")


def check_joint_plan(evidence: Evidence) -> None:
    """Raises ContradictionError where the plan of a deployment places a network otherwise than that network's own,
    or holds what the report does not list."""
    joint, file = evidence.plan, evidence.file(PLAN)
    for name, network in evidence.networks.items():
        own, prefix = network.plan, f"{name}/"
        for part in ("tensors", "buffers"):
            wanted = {
                prefix + key: _as_part(value, prefix)
                for key, value in own[part].items()
                if value.get("kind") not in _OF_ALL
            }
            placed = {key: _as_part(value) for key, value in joint[part].items() if key.startswith(prefix)}
            hold_equal(file, placed, network.file(PLAN), wanted, at=part)
        for part in ("steps", "chunks"):
            in_order = [_as_part(value, prefix) for value in own[part]]
            there = [_as_part(value) for value in joint[part] if str(value["op"]).startswith(prefix)]
            hold_equal(file, there, network.file(PLAN), in_order, at=part)
    steps = joint["steps"]
    between = [step["op"] for step in steps if str(step["op"]).split("/")[0] not in evidence.networks]
    stages = [row["name"] for row in evidence.report["stages"] if row["kind"] == "stage"]
    hold_equal(file, between, evidence.file(REPORT), stages, at="steps between networks")
    survivors = [
        {
            "name": each["name"],
            "kind": each["kind"],
            "bytes": each["size_bytes"],
            "offset": each["offset_bytes"],
            "first": steps[each["first_step"]]["op"],
            "last": steps[each["last_step"]]["op"],
        }
        for each in joint["buffers"].values()
        if "/" not in each["name"]
    ]
    hold_equal(evidence.file(REPORT), evidence.report["survivors"], file, survivors, at="survivors")


_NAMES = ("tensor", "buffer", "name", "op")
_LISTS_OF_NAMES = ("reads", "writes")
_PLACED = ("kind", "region", "offset_bytes", "size_bytes", "first_block", "blocks")


def _as_part(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """What an entry of a network's plan is in that of all: names with the network before them, and no steps."""
    named = {key: prefix + entry[key] for key in _NAMES if key in entry}
    lists = {key: [prefix + name for name in entry[key]] for key in _LISTS_OF_NAMES if key in entry}
    return {key: entry[key] for key in _PLACED if key in entry} | named | lists


def _check_lives(plan: Mapping[str, Any], file: str) -> None:
    steps = plan["steps"]
    if [step["index"] for step in steps] != list(range(len(steps))):
        raise ContradictionError(file, "its steps are not numbered from 0 on")
    last = max(len(steps) - 1, 0)
    for key, buffer in plan["buffers"].items():
        if key != buffer["name"]:
            raise ContradictionError(file, f"the buffer {buffer['name']!r} is listed as {key!r}")
        _hold_whole(buffer, ("offset_bytes", "size_bytes", "first_step", "last_step"), key, file)
        if not 0 <= buffer["first_step"] <= buffer["last_step"] <= last:
            lives = f"{buffer['first_step']} to {buffer['last_step']} of 0 to {last}"
            raise ContradictionError(file, f"the buffer {key!r} lives in steps {lives}")


def _check_tensors(plan: Mapping[str, Any], file: str) -> None:
    buffers: dict[str, Buffer] = plan["buffers"]
    tensors: dict[str, Mapping[str, Any]] = plan["tensors"]
    for name, place in tensors.items():
        if name != place.get("tensor", name):
            raise ContradictionError(file, f"the tensor {place['tensor']!r} is listed as {name!r}")
        _hold_whole(place, ("offset_bytes", "size_bytes"), name, file)
        offset, size = place["offset_bytes"], place["size_bytes"]
        if offset < 0 or offset + size > _of(buffers, place)["size_bytes"]:
            raise ContradictionError(file, f"{name!r} lies outside of its buffer")
    for step in plan["steps"]:
        for name in (*step["reads"], *step["writes"]):
            buffer = _of(buffers, tensors[name]) if name in tensors else None
            if buffer is not None and not buffer["first_step"] <= step["index"] <= buffer["last_step"]:
                raise ContradictionError(file, f"step {step['index']} uses {name!r}, which does not live then")


def _hold_whole(entry: Mapping[str, Any], keys: tuple[str, ...], name: str, file: str) -> None:
    for key in keys:
        if not isinstance(entry[key], int) or isinstance(entry[key], bool):
            raise ContradictionError(file, f"{key} of {name!r} is no whole number")


def _of(buffers: Mapping[str, Buffer], place: Mapping[str, Any]) -> Buffer:
    return buffers[place["buffer"]]


def _end(buffer: Buffer) -> int:
    return int(buffer["offset_bytes"]) + int(buffer["size_bytes"])


def _together(buffers: list[Buffer]) -> Iterator[tuple[Buffer, Buffer]]:
    """Pairs that share a byte at a time."""
    active: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: int(b["offset_bytes"])):
        active = [other for other in active if _end(other) > buffer["offset_bytes"]]
        for other in active:
            if other["first_step"] <= buffer["last_step"] and buffer["first_step"] <= other["last_step"]:
                yield other, buffer
        active.append(buffer)


def _overtakes(plan: Mapping[str, Any], one: Buffer, other: Buffer) -> bool:
    """Whether the two are what a step reads for the last time and what it writes over that, some bytes behind.

    All that can be said of a plan of version 1, which does not name the accesses that make it safe.
    """
    if one["offset_bytes"] == other["offset_bytes"]:
        return False
    pairs = ((one, other), (other, one))
    return any(_is_read_as_written(plan, read, written) for read, written in pairs)


def _is_read_as_written(plan: Mapping[str, Any], read: Buffer, written: Buffer) -> bool:
    """Whether the step that first writes the one reads the other, for the last time."""
    index, tensors = written["first_step"], plan["tensors"]
    if read["last_step"] != index:
        return False
    step = plan["steps"][index]
    reads, writes = (
        {tensors[name]["buffer"] for name in step[key] if name in tensors} for key in ("reads", "writes")
    )
    return read["name"] in reads and written["name"] in writes
