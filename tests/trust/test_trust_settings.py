"""The user's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.errors import UserFileError
from nnkit.trust import config_folder, user_settings


def test_without_a_file_there_are_defaults(config: Path) -> None:
    assert config_folder() == config
    assert (dict(user_settings().programs), user_settings().time_factor) == ({}, 1.0)


def test_programs_and_time(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.mkdir()
    (config / "config.yaml").write_text("programs: {mapper: /opt/mapper}\ntime_factor: 2.5\n")
    assert dict(user_settings().programs) == {"mapper": Path("/opt/mapper")}
    assert user_settings().time_factor == 2.5
    monkeypatch.setenv("NNKIT_TIME_FACTOR", "4")
    assert user_settings().time_factor == 4.0


@pytest.mark.parametrize(
    "text",
    ["[]", "a: b", "programs: [a]", "programs: {a: 1}", "programs: {a: b}", "time_factor: 0", "time_factor: x"],
)
def test_anything_else_is_refused_with_a_remedy(config: Path, text: str) -> None:
    config.mkdir()
    (config / "config.yaml").write_text(text)
    with pytest.raises(UserFileError) as caught:
        user_settings()
    assert caught.value.where
    assert caught.value.remedy


@pytest.mark.parametrize("value", ["nan", "-1", "inf", "slow"])
def test_a_factor_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NNKIT_TIME_FACTOR", value)
    with pytest.raises(UserFileError, match="no factor"):
        user_settings()
