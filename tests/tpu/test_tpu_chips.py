"""How a tensor lies in a lane, by hand."""

from __future__ import annotations

from nnkit_tpu.chips import CHIPS, lane_bytes


def test_size_per_lane() -> None:
    # n * ceil(c / lanes) * align(h * w, EU bytes / value bytes) * value bytes
    chip = CHIPS["bm1684x"]
    assert lane_bytes(chip, (2, 65, 5, 5), 1) == 2 * 2 * 64
    assert lane_bytes(chip, (2, 65, 5, 5), 2) == 2 * 2 * 32 * 2
    assert lane_bytes(chip, (2, 65, 5, 5), 4) == 2 * 2 * 32 * 4
    assert lane_bytes(chip, (1, 64, 1, 100), 1, False) == 100
    assert lane_bytes(CHIPS["cv181x"], (1, 17, 3, 5), 1) == 3 * 16
