"""The user's own settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.errors import UserFileError
from nnkit.trust import config_folder, user_settings


def test_without_a_file_there_are_defaults(config: Path) -> None:
    assert config_folder() == config
    assert (dict(user_settings().programs), user_settings().time_factor, user_settings().values_gib) == ({}, 1.0, 2.0)


def test_programs_time_and_memory(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.mkdir()
    (config / "config.yaml").write_text(
        "programs: {mapper: /opt/mapper}\ntime_factor: 2.5\nvalues_gib: 8\nsize_factor: 3\n"
    )
    assert dict(user_settings().programs) == {"mapper": Path("/opt/mapper")}
    assert (user_settings().time_factor, user_settings().values_gib) == (2.5, 8.0)
    assert user_settings().size_factor == 3.0
    monkeypatch.setenv("NNKIT_TIME_FACTOR", "4")
    monkeypatch.setenv("NNKIT_VALUES_GIB", "0.5")
    monkeypatch.setenv("NNKIT_SIZE_FACTOR", "7")
    assert user_settings().size_factor == 7.0
    assert (user_settings().time_factor, user_settings().values_gib) == (4.0, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "a: b",
        "programs: [a]",
        "programs: {a: 1}",
        "programs: {a: b}",
        "time_factor: 0",
        "values_gib: []",
        "signer: me.pem",
        "signer:",
        "signer: ''",
    ],
)
def test_anything_else_is_refused_with_a_remedy(config: Path, text: str) -> None:
    config.mkdir()
    (config / "config.yaml").write_text(text)
    with pytest.raises(UserFileError) as caught:
        user_settings()
    assert caught.value.where
    assert caught.value.remedy


def test_a_file_that_is_a_link_to_nothing_is_not_taken_for_none(config: Path) -> None:
    """It may demand a signature."""
    config.mkdir()
    (config / "config.yaml").symlink_to("config.yaml")
    with pytest.raises(UserFileError):
        user_settings()
    (config / "config.yaml").unlink()
    (config / "config.yaml").symlink_to("gone.yaml")
    with pytest.raises(UserFileError):
        user_settings()


@pytest.mark.parametrize(
    ("variable", "what"),
    [
        ("NNKIT_TIME_FACTOR", "no factor for limits"),
        ("NNKIT_VALUES_GIB", "no amount of memory"),
        ("NNKIT_SIZE_FACTOR", "no factor for bounds"),
    ],
)
@pytest.mark.parametrize("value", ["nan", "-1", "inf", "slow"])
def test_a_number_that_is_none(monkeypatch: pytest.MonkeyPatch, variable: str, what: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserFileError, match=what):
        user_settings()
