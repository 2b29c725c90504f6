"""The mapper's dumps: names, numbers, and comparison layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import UserFileError
from nnkit_nnie.mapper.quant_dumps import compare_dumps, list_dumps


def dump(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


def test_names_and_numbers(tmp_path: Path):
    dump(tmp_path, "conv1_output0_1_2_2_quant.linear.hex", ["00001000", "FFFFF000", "80000000", "7fffffff"])
    dump(tmp_path, "conv1_input0_1_1_2_anti_quant.linear.float", ["0.5", "-1e-3"])
    dump(tmp_path, "conv1_input0_1_1_2_quant.nonlinear.hex", ["1", "2"])
    dump(tmp_path, "fc_output1_weight-anti.float", ["0.25"])
    dump(tmp_path, "fc_output1_bias.hex", ["1"])
    found = list_dumps(tmp_path)
    assert [(d.layer, d.sort, d.index, d.shape) for d in found] == [
        ("conv1", "input", 0, (1, 1, 2)),
        ("conv1", "output", 0, (1, 2, 2)),
        ("fc_output1", "weight", 0, ()),
    ]
    assert found[0].values().tolist() == [0.5, -1e-3]
    assert found[1].values().tolist() == [1.0, -1.0, -524288.0, 524288.0 - 2.0**-12]


def test_comparison_is_in_the_networks_order_and_names_what_it_cannot_compare(tmp_path: Path):
    dump(tmp_path, "b_output0_1_1_2_quant.linear.hex", ["00001000", "00002000"])
    dump(tmp_path, "a_output0_1_1_2_quant.linear.hex", ["00001000", "00000000"])
    dump(tmp_path, "c_output0_1_1_3_quant.linear.hex", ["1", "2", "3"])
    dump(tmp_path, "d_output0_1_1_1_quant.linear.hex", ["1"])
    ours = {
        ("b", "output", 0): np.asarray([1.0, 2.0]),
        ("a", "output", 0): np.asarray([1.0, 0.5]),
        ("c", "output", 0): np.asarray([1.0]),
    }
    compared, problems = compare_dumps(list_dumps(tmp_path), ours)
    assert [entry.layer for entry in compared] == ["b", "a"]
    assert compared[0].distance.cosine == 1.0
    assert compared[1].distance.max_abs == 0.5
    assert any("3 values, the layer has 1" in text for text in problems)
    assert any("no such layer" in text for text in problems)


@pytest.mark.parametrize("first", [0, 1])
def test_groups_are_put_together(tmp_path: Path, first: int):
    """Ten groups, so that an order by name would be another."""
    values = np.arange(20.0) - 3.0
    for group, part in enumerate(values.reshape(10, 2), first):
        dump(
            tmp_path,
            f"dw_group_{group}_output0_1_1_2_quant.linear.hex",
            [f"{int(v) * 4096 & 0xFFFFFFFF:X}" for v in part],
        )
        dump(tmp_path, f"dw_group_{group}_weight-anti.float", [str(part[0])])
    dump(tmp_path, "own_group_1_output0_1_1_1_quant.linear.hex", ["1000"])
    dump(tmp_path, "none_group_1_output0_1_1_1_quant.linear.hex", ["1000"])
    ours = {
        ("own_group_1", "output", 0): np.asarray([1.0]),
        ("dw", "output", 0): values,
        ("dw", "weight", 0): values[::2],
    }
    compared, problems = compare_dumps(list_dumps(tmp_path), ours)
    assert [(each.layer, each.sort, each.distance.max_abs) for each in compared] == [
        ("own_group_1", "output", 0.0), ("dw", "output", 0.0), ("dw", "weight", 0.0),
    ]  # fmt: skip
    assert problems == ("none_group_1_output0_1_1_1_quant.linear.hex: the network has no such layer",)
    (tmp_path / f"dw_group_{first + 4}_output0_1_1_2_quant.linear.hex").unlink()
    (tmp_path / f"dw_group_{first + 9}_weight-anti.float").unlink()
    problems = compare_dumps(list_dumps(tmp_path), ours)[1]
    assert f"dw_group_{first} to {first + 9} output: 9 dumps, some between are not there" in problems
    assert f"dw_group_{first} to {first + 8} weight: 9 values, the layer has 10" in problems


@pytest.mark.parametrize("line", ["xyz", "1FFFFFFFF", "-1"])
def test_line_that_is_no_number(line: str, tmp_path: Path):
    dump(tmp_path, "a_output0_1_1_1_quant.linear.hex", [line])
    with pytest.raises(UserFileError, match="cannot be read"):
        list_dumps(tmp_path)[0].values()


def test_folder_without_dumps(tmp_path: Path):
    with pytest.raises(UserFileError, match="no dumps"):
        list_dumps(tmp_path)
    with pytest.raises(UserFileError, match="no such folder"):
        list_dumps(tmp_path / "none")
