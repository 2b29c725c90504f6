"""The audit of final programs, on a group written by hand: two slices, two loads, an op, a store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnkit_tpu.chips import CHIPS
from nnkit_tpu.layer_group.audit import Audit, audit_local_memory

CHIP = replace(CHIPS["cv181x"], lane_bytes=1024)


def item(value: str, kind: str, operands: str, place: tuple[int, int, int, int], number: int, stage: int) -> str:
    address, size, buffer_address, buffer_size = place
    return (
        f'        {value} = "tpu.{kind}"({operands}) {{ginfo = #tpu.lg<out_addr = {address}, out_size = {size},'
        f" buffer_addr = {buffer_address}, buffer_size = {buffer_size}, id = {number}, stage = {stage},"
        " slice_idx = 0>, x = 1 : i64} : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xi8> loc(#loc)"
    )


def group(
    *,
    weight: int = 0,
    source: int = 128,
    middle: int = 256,
    output: int = 384,
    buffer: int = 512,
    flow: str = "-1, 2, 0, 4, -2, 3, 1",
) -> str:
    """Step 1: the first convolution, the next slice's input, the store before; step 2: the second convolution."""
    lines = [
        '      %1 = "top.Weight"() : () -> tensor<1x1x1x1xi8> loc(#loc)',
        '      %9 = "tpu.Group"(%arg0) ({',
        item("%10", "Load", "%arg0", (source, 64, 0, 0), 1, 0),
        item("%11", "Load", "%1", (weight, 64, 0, 0), 0, 0),
        item("%12", "Conv2D", "%10, %11, %0", (middle, 64, buffer, 32), 2, 1),
        item("%13", "Conv2D", "%12, %11, %0", (output, 64, 0, 0), 3, 1),
        item("%14", "Store", "%13, %0", (output, 64, 0, 0), 4, 2),
        '        "tpu.Yield"(%14) : (tensor<1x1x1x1xi8>) -> () loc(#loc)',
        f"      }}) {{flow = [{flow}], hsecs = 2 : i64, nsecs = 1 : i64, swpipl_stage_num = 3 : i64}} : () -> ()",
    ]
    return "\n".join(lines)


def test_a_sound_group_passes() -> None:
    # Two slices: a load, two convolutions and a store of each; the weights are loaded once.
    assert audit_local_memory(group(), CHIP) == Audit(1, 9, ())


def test_a_group_that_cannot_be_read_is_neither_proven_nor_refuted() -> None:
    strange = group(middle=0).replace(
        '"tpu.Conv2D"(%12, %11, %0) {ginfo', '"tpu.Conv2D"(%12, %11, %0) <{fresh}> {ginfo'
    )
    audit = audit_local_memory(strange + "\n" + group(), CHIP)
    assert (audit.groups, audit.actions, audit.conflicts) == (2, 9, ())
    assert len(audit.not_followed) == 1
    assert audit.not_followed[0].startswith("group 0 cannot be followed: a line that cannot be read: %13")
    idle = audit_local_memory(group(flow="-1, 2, 0, -2, 3, 1"), CHIP)
    assert idle.not_followed == ("group 0 cannot be followed: %14 is in none of its steps",)


def test_bytes_may_be_used_again_once_they_are_dead() -> None:
    # In step 2 the input is dead until the next slice's arrives at the step's end.
    assert audit_local_memory(group(flow="-1, 2, 4, -2, 3, 0, 1"), CHIP).conflicts == ()
    assert audit_local_memory(group(buffer=384 + 64), CHIP).conflicts == ()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"middle": 130}, "has its output on %10, which it reads"),
        ({"buffer": 150}, "has its buffer on %10, which it reads"),
        ({"output": 0}, "Conv2D %13 has its output on %11, which it reads"),
        # Weights stay for the second slice: the store's bytes over them are noticed there.
        ({"output": 32}, "Conv2D %12 reads %11, 32 of its 64 bytes a lane are gone"),
        # The next slice's input is loaded while the first convolution reads this one's.
        ({"flow": "-1, 2, 1, 0, 4, -2, 3"}, "Conv2D %12 reads %10, 64 of its 64 bytes a lane are gone"),
        ({"source": 256}, "has its output on %10"),
        ({"output": 1000}, "ends at 1064 of 1024 bytes"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, int | str], sentence: str) -> None:
    problems = audit_local_memory(group(**changes), CHIP).conflicts  # type: ignore[arg-type]
    assert any(sentence in problem for problem in problems), problems
