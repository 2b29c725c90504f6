"""Convolutions that the compiler for the BM chips cannot make code for outside of a layer group.

In INT8, and on global memory, its code for a convolution in groups (not a depthwise one) cuts the results' channels
group by group. Where all groups together have more input channels and more results than the chip has lanes, and the
results of one are not whole rows of lanes (on the bm1688: nor a half, a quarter ... of one), it ends: on the bm1684x
with an assertion of `nodechip_conv_quant_asym_int8_parallel` (`ocslice % tpu_npu_num() == 0 || groups * oc <=
tpu_npu_num()`), on the bm1688 with "Address check error" or one of `__load_coeff_asym`. Where the bm1688's does not
end, its values are wrong: a third of them for two groups of 48 channels and 24 results.

In a layer group the same convolution is computed by other code, which has no such limit. Where the compiler leaves
one outside, it is given a group with a neighbour, beside the groups that are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.final_program import FinalOp
from nnkit_tpu.layer_group.from_lowered import LoweredFunction
from nnkit_tpu.layer_group.vendor_files import InjectedGroup

_GROUPS = re.compile(r"\bgroup = (\d+)")


def lone_convolutions(ops: Sequence[FinalOp], chip: Chip) -> tuple[str, ...]:
    """The names of such convolutions in a final program."""
    return tuple(op.name for op in ops if not (op.in_group or chip.is_cv) and _cannot_be_alone(op, chip))


def _cannot_be_alone(op: FinalOp, chip: Chip) -> bool:
    match = _GROUPS.search(op.text)
    if op.kind != "Conv2D" or match is None or not op.is_integer:
        return False
    groups, inputs, outputs = int(match.group(1)), op.operands[0][1], op.result[1]
    if groups == 1 or groups == inputs == outputs:
        return False
    of_group = outputs // groups
    whole = of_group % chip.lanes == 0 or (chip.name != "bm1684x" and chip.lanes % of_group == 0)
    return inputs > chip.lanes and outputs > chip.lanes and not whole


def groups_around(
    functions: Sequence[LoweredFunction], groups: Mapping[str, Sequence[InjectedGroup]], name: str
) -> Iterator[dict[str, Sequence[InjectedGroup]]]:
    """The groups with the layer of this name in one: with the layer or group behind it, before it, and both.

    A group of one layer is none to the compiler, which takes it apart.
    """
    for function in functions:
        at = next((index for index, op in enumerate(function.graph.ops) if op.output == name), None)
        if at is None:
            continue
        given = tuple(groups.get(function.name, ()))
        last = len(function.graph.ops) - 1
        before = next((each.first for each in given if each.last == at - 1), max(at - 1, 0))
        behind = next((each.last for each in given if each.first == at + 1), min(at + 1, last))
        for start, stop in dict.fromkeys(((at, behind), (before, at), (before, behind))):
            if start < stop:
                others = [each for each in given if each.last < start or each.first > stop]
                made = sorted([*others, InjectedGroup(start, stop, None)], key=lambda each: each.first)
                yield {**groups, function.name: tuple(made)}
