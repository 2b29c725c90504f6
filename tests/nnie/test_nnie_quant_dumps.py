"""The mapper's dumps: names, numbers, and comparison layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import UserFileError
from nnkit_nnie.quant_dumps import compare_dumps, list_dumps


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
