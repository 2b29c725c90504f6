"""Random whole networks in integers: every layer of the compiled library equals its program."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import random_networks


@pytest.mark.parametrize("seed", [7, 11])
def test_random_networks(tmp_path: Path, seed: int) -> None:
    """`python -m benchmarks.random_networks --count 1000` tries more, under sanitizers."""
    assert random_networks.check(tmp_path, seed, layers=6, sanitize=False) > 500


def test_a_difference_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clamp of the C that is one off."""
    from nnkit.c.affine import requantize

    wrong = requantize.stage_of

    def off(*arguments: object, **named: object) -> object:
        stage = wrong(*arguments, **named)  # type: ignore[arg-type]
        stage.multiplier[:] = stage.multiplier // 2 + 1
        return stage

    monkeypatch.setattr("nnkit.c.affine.conv.stage_of", off)
    with pytest.raises(random_networks.DifferentError, match="seed 3"):
        random_networks.check(tmp_path, 3, layers=3, sanitize=False)
