"""The vendor's cycles beside ours: of the whole model, or of none; and gains over the vendor, input by input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.tpu_zoo import is_worse, main, vendor_cycles, with_gain

PART = "func.func @subfunc_{0}() attributes {{id = {0} : i64, mode = #tpu<run_mode TPU_{1}>}}\n"
PROFILE = """ENGINE_BD                              ENGINE_GDMA
                                       Cast_14|GDMA_MATRIX|s:0|b:0|g:1|e:846|t:847|dr:0|sz:49152|bw:54.05
Cast_14|AR|s:847|b:1|g:1|e:858|t:12
API_END total_cycle:5038|b:47|g:12
"""


def test_cycles_of_a_part_are_not_taken_for_those_of_the_model(tmp_path: Path) -> None:
    profile = tmp_path / "compiler_profile_0.txt"
    profile.write_text(PROFILE, encoding="utf-8")
    static = PART.format(0, "STATIC")
    assert vendor_cycles(static, profile) == 5038
    assert vendor_cycles(static + PART.format(1, "DYNAMIC"), profile) is None


def test_a_gain_is_told_with_its_error_and_without_every_input() -> None:
    row = with_gain({"cosine": 0.9, "each_db": [10.0, 12.0, 14.0], "vendor_each_db": [9.0, 12.0, 11.0]})
    assert row == {"cosine": 0.9, "gain_db": 1.333, "gain_error_db": 0.882}
    assert with_gain({"each_db": [10.0], "vendor_each_db": []}) == {"gain_db": None, "gain_error_db": None}


@pytest.mark.parametrize(
    ("more", "worse"),
    [
        ({"status": "ok"}, False),
        ({"status": "ok", "cycles": 102, "vendor_cycles": 100}, True),
        ({"status": "ok", "cycles": 101, "vendor_cycles": 100}, False),
        ({"status": "ok", "gain_db": -0.7, "gain_error_db": 0.3}, True),
        ({"status": "ok", "gain_db": -0.7, "gain_error_db": 0.4}, False),
        ({"status": "failed"}, True),
        ({"status": "failed", "vendor_status": "ok"}, True),
        ({"status": "failed", "vendor_status": "failed: out of memory"}, False),
        ({"status": "refused", "vendor_status": "ok"}, True),
        ({"status": "refused"}, False),
    ],
)
def test_what_makes_the_exit_code_1(more: dict[str, Any], worse: bool) -> None:
    assert is_worse({"vendor_status": "", **more}) == worse


def test_without_a_compiler_nothing_is_measured_and_that_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "file"))  # no folder, so that nothing can be installed there
    assert main(["--alone", "--networks", "resnet8"]) not in (0, 1)
    assert "nothing was measured" in capsys.readouterr().err
