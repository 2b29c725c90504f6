"""What a log of the compiler says about a failure: the op and the reason, in one line.

A crash that the log does not explain is reported as one, with the pass it came in: the last line before a stack
dump is often a timing or a statistic, and no reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_ERROR = re.compile(r"^(?:loc\(\"?(?P<loc>[^\")]+)\"?[^)]*\)|(?P<file>[^\s:]+)(?::\d+){1,2}): error: (?P<reason>.*)$")
_ASSERTED = re.compile(r"^ASSERT INFO: ?(?P<condition>.*)$")
_AT = re.compile(r"^ASSERT executed at ?(?P<place>\S+)$")
_IN_A_KERNEL = re.compile(
    r"^(?:\[\d+\])?(?P<place>\S+:\d+): (?P<function>\w+): Assertion \"(?P<condition>.*)\" failed"
)
_ASSERTED_BY_C = re.compile(r"^\S+: (?P<place>\S+:\d+): .*: Assertion `(?P<condition>.*)' failed\.?$")
_FAILING = re.compile(r"^->.*loc\((?:fused\[)?\"(?P<loc>[^\"]+)\"")
_UNREACHABLE = re.compile(r"^UNREACHABLE executed at (?P<place>\S+?)!?$")
_NAMED = re.compile(r"loc\((?:fused\[)?\"(?P<loc>[^\"]+)\"")
_OP_ERROR = re.compile(r"^error: (?P<reason>.*)$")
_CRASH = ("PLEASE submit a bug report", "Stack dump:", "#0 0x", "Stack dump without symbol names")
_REASON = re.compile(
    r"UNREACHABLE executed|Assertion|LLVM ERROR|terminate called|what\(\)|not support|[Ee]rror|[Ff]ail|[Cc]an't|"
    r"can not|cannot|invalid|Invalid|unknown option|Unknown",
)
_PASS = re.compile(r"^Run (?P<name>\w+)")
_STATISTIC = re.compile(r"time: ?\d|bytes: ?\d|^(Can not open config file|load lg results|GmemAllocator)")
_NOISE = re.compile(r"^(==-|Run \w+|bmcpu init|Cannot open libusercpu|in cmodel|The dir path|\[\d|process|find\b)")


@dataclass(frozen=True)
class Failure:
    """op: location of the op that failed, empty where the log does not say. reason: one line."""

    op: str
    reason: str


def read_failure(log: str) -> Failure | None:
    """The failure that a log tells of; None where it tells of none."""
    lines = log.splitlines()
    kernel = next(filter(None, map(_IN_A_KERNEL.match, lines)), None)
    if kernel is not None:
        place = kernel["place"].rsplit("/", 1)[-1]
        condition = kernel["condition"]
        return Failure("", f"the assertion `{condition}` of {kernel['function']} does not hold ({place})"[:300])
    crash = next((i for i, line in enumerate(lines) if any(mark in line for mark in _CRASH)), len(lines))
    before = [line.strip() for line in lines[:crash] if line.strip() and not _NOISE.match(line.strip())]
    for line in before:
        match = _ERROR.match(line)
        if match:
            return Failure(match["loc"] or "", match["reason"])
        plain = _OP_ERROR.match(line)
        if plain:
            return Failure("", plain["reason"])
    asserted = _assertion(before)
    if asserted is not None:
        return asserted
    telling = [line for line in before if _REASON.search(line)]
    if not telling:
        return _crash(lines[:crash], before[-1:]) if crash < len(lines) else None
    return Failure(_last_location(before), _told(before, telling[-1])[:300])


def _assertion(lines: Sequence[str]) -> Failure | None:
    """What a failed assertion says. Its lines: ASSERT executed at FILE, ASSERT INFO:CONDITION, Operation:, the op.

    The condition and the op may be missing. The op that failed is then the one that an arrow marks in the lines
    before, or the last that they name.
    """
    first = next(((i, match) for i, line in enumerate(lines) if (match := _ASSERTED.match(line))), None)
    if first is None:
        return None
    at, match = first
    marked = [line["loc"] for each in lines[:at] if (line := _FAILING.match(each))]
    op = _last_location(lines[at:]) or (marked[-1] if marked else _last_location(lines[:at]))
    condition = match["condition"] or next((line for line in lines[at + 1 :] if not line.startswith("Operation")), "")
    place = next((_source(line["place"]) for each in lines[:at] if (line := _AT.match(each))), "")
    told = f"its assertion `{condition}` does not hold" if condition else "an assertion of it does not hold"
    return Failure(op, f"{told} ({place})"[:300] if place else told[:300])


def _told(lines: Sequence[str], telling: str) -> str:
    """A telling line.

    Of an assertion of C's its condition, without the function's types, which are long; of a place that is never to be
    reached the words, which stand in the line before it.
    """
    asserted = _ASSERTED_BY_C.match(telling)
    if asserted is not None:
        return f"its assertion `{asserted['condition']}` does not hold ({_source(asserted['place'])})"
    unreachable = _UNREACHABLE.match(telling)
    if unreachable is None:
        return _source(telling)
    place, before = _source(unreachable["place"]), lines[: lines.index(telling)][-1:]
    words = [line for line in before if "loc(" not in line]
    return f"{words[0]} ({place})" if words else f"it came to where it never should ({place})"


def _source(path: str) -> str:
    """A file of the compiler below its `lib` or `include`."""
    return re.sub(r"^\S+/(lib|include|src)/", r"\1/", path)


def _crash(log: Sequence[str], last: Sequence[str]) -> Failure:
    """A crash that no line gives a reason for, by the last pass that the log names and its last line."""
    passes = [match["name"] for line in log if (match := _PASS.match(line.strip()))]
    where = f" in or after {passes[-1]}" if passes else ""
    words = "".join(f"; its last line: {line[:200]}" for line in last if not _STATISTIC.search(line))
    return Failure(_last_location(log), f"it crashed{where} without a reason{words}")


def _last_location(lines: Sequence[str]) -> str:
    locations = [match["loc"] for line in lines for match in _NAMED.finditer(line)]
    return locations[-1] if locations else ""
