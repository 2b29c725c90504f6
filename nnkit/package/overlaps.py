"""Results written over the input that is still read, proven again from the accesses that `plan.json` names.

Nothing is shared with the planner: the kernel's loops are walked here once more.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Pixels: TypeAlias = NDArray[np.int64]
_MOST_BYTES, _MOST_PIXELS = 1 << 48, 1 << 24
_NEVER = 1 << 62  # no byte of the input lies there
_SMALLEST_STEP = 1


def overlap_proofs(plan: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """By the buffers that are read and written: why they may not overlap as they do; empty where they may.

    Raises KeyError, TypeError, ValueError or AttributeError where the plan cannot be read.
    """
    steps = {step["index"]: step for step in plan["steps"]}
    proofs = {}
    for overlap in plan["overlaps"]:
        read, written = (plan["tensors"][overlap[key]] for key in ("read", "written"))
        why = _why_not(plan, overlap, read, written, steps[overlap["step"]])
        proofs[read["buffer"], written["buffer"]] = why
    return proofs


def _why_not(
    plan: Mapping[str, Any],
    overlap: Mapping[str, Any],
    read: Mapping[str, Any],
    written: Mapping[str, Any],
    step: Mapping[str, Any],
) -> str:
    index, accesses = overlap["step"], overlap["accesses"]
    above, below = plan["buffers"][read["buffer"]], plan["buffers"][written["buffer"]]
    if above["last_step"] != index or below["first_step"] != index:
        return f"step {index} is not the last that reads the one and the first that writes the other"
    if step["reads"].count(overlap["read"]) != 1 or step["writes"] != [overlap["written"]]:
        return f"step {index} does not read {overlap['read']!r} and write {overlap['written']!r}"
    if (read["size_bytes"], written["size_bytes"]) != _sizes_bytes(accesses):
        return f"the accesses of step {index} are those of other tensors"
    start, end = below["offset_bytes"] + written["offset_bytes"], above["offset_bytes"] + read["offset_bytes"]
    needed = least_distance_bytes(accesses)
    if end - start < needed:
        return f"step {index} needs {needed} bytes between their starts, and has {end - start}"
    for name in step["reads"]:
        other = plan["tensors"].get(name)
        if name == overlap["read"] or other is None or other["buffer"] != read["buffer"]:
            continue
        at = above["offset_bytes"] + other["offset_bytes"]
        if at < start + written["size_bytes"] and start < at + other["size_bytes"]:
            return f"step {index} reads {name!r} too, over which it writes"
    return ""


def _sizes_bytes(accesses: Mapping[str, Any]) -> tuple[int, int]:
    window = accesses["window"]
    pixels, out_pixels = window["height"] * window["width"], window["out_height"] * window["out_width"]
    read, written = (
        accesses["channels"] * accesses["input_bytes"],
        accesses["out_channels"] * accesses["output_bytes"],
    )
    return pixels * read, out_pixels * written


def least_distance_bytes(accesses: Mapping[str, Any]) -> int:
    """How far the input has to start above the output, so that nothing is written before it was read; at least 1.

    Raises KeyError, TypeError or ValueError for what is no order of accesses, or none of a size that is walked.
    """
    window, order = accesses["window"], accesses["order"]
    channels, out_channels, groups = (operator.index(accesses[key]) for key in ("channels", "out_channels", "groups"))
    read, written = operator.index(accesses["input_bytes"]), operator.index(accesses["output_bytes"])
    plane, out_plane = window["height"] * window["width"], window["out_height"] * window["out_width"]
    least = (channels, out_channels, groups, read, written, plane, out_plane, accesses["together"])
    if min(*least, *window["kernel"], *window["stride"], *window["dilation"]) < 1:
        raise ValueError("a size below 1")
    if max(_sizes_bytes(accesses)) > _MOST_BYTES or max(plane, out_plane) > _MOST_PIXELS:
        raise ValueError("a tensor too large to be walked")
    if order == "groups":
        if channels % groups or out_channels % groups:
            raise ValueError(f"{groups} groups of {channels} and {out_channels} channels")
        end: int = out_channels // groups * out_plane * written
        start: int = channels // groups * plane * read
        last = end + (groups - 1) * (end - start)
        return max(_SMALLEST_STEP, end, last)
    first = _first_pixels(window)
    if order == "pixels":
        return max(_SMALLEST_STEP, _needed(first, accesses, channels * read, out_channels * written, _NEVER))
    if order != "planes" or channels != out_channels:
        raise ValueError(f"no order of accesses: {order!r} of {channels} and {out_channels} channels")
    # What a channel needs grows or shrinks evenly from one to the next, but for the last, which none follows.
    needed = [_SMALLEST_STEP]
    for channel in {0, max(channels - 2, 0), channels - 1}:
        following = int(first.min()) if channel < channels - 1 else _NEVER
        beyond = plane + following if following < _NEVER else _NEVER
        needed.append(
            channel * (out_plane * written - plane * read) + _needed(first, accesses, read, written, beyond)
        )
    return max(needed)


def _needed(first: Pixels, accesses: Mapping[str, Any], read: int, written: int, beyond: int) -> int:
    """The most, over all steps, of the end of what it has written less the first byte that is still to be read.

    first: the first pixel that each output pixel reads. read, written: bytes of a pixel. beyond: the first pixel that
    is read after all of these.
    """
    together = min(accesses["together"], len(first))
    starts = np.arange(0, len(first), together)
    ends = np.minimum(starts + together, len(first))
    reads = np.append(np.minimum.reduceat(first, starts), beyond)
    still = np.minimum.accumulate(reads[::-1])[::-1]  # from each step on, and after the last
    later = still[:-1] if accesses["rereads"] else still[1:]
    meant = later < _NEVER
    return int((ends[meant] * written - later[meant] * read).max(initial=-_MOST_BYTES))


def _first_pixels(window: Mapping[str, Any]) -> Pixels:
    """The first pixel that each pixel of the output reads, row by row; `_NEVER` where all are padding."""
    rows, columns = _first_inside(window, 0)[:, None], _first_inside(window, 1)[None, :]
    never = (rows == _NEVER) | (columns == _NEVER)
    return np.where(never, _NEVER, np.where(never, 0, rows) * window["width"] + np.where(never, 0, columns)).ravel()


def _first_inside(window: Mapping[str, Any], axis: int) -> Pixels:
    """The first row or column of the input that the taps of each one of the output meet."""
    size, count = (("height", "out_height"), ("width", "out_width"))[axis]
    dilation = window["dilation"][axis]
    start = np.arange(window[count], dtype=np.int64) * window["stride"][axis] - window["padding"][axis]
    tap = np.maximum(0, -(start // dilation))  # the first that does not lie before the input
    place = start + tap * dilation
    return np.where((tap < window["kernel"][axis]) & (place < window[size]), place, _NEVER)
