"""What was accepted before: semver.org's own example as the order of versions, and files that are damaged."""

from __future__ import annotations

import itertools
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from nnkit.trust.accepted import Release, accept, newer_accepted

RELEASE = Release("net", "gap8", "1.0.0", "")
# semver.org, 11.4; before it what lies below, behind it what lies above
ORDER = (
    "0.9.10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.1"
)


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(ORDER.split(), 2)))
def test_an_older_release_is_noticed_and_a_newer_is_not(older: str, newer: str) -> None:
    accept(replace(RELEASE, version=newer))
    assert newer_accepted(replace(RELEASE, version=older)) == newer
    assert newer_accepted(replace(RELEASE, version=newer)) is None
    accept(replace(RELEASE, version=older))
    assert newer_accepted(replace(RELEASE, version=older)) == newer


def test_other_names_targets_and_builds_of_a_version_are_no_matter() -> None:
    accept(replace(RELEASE, version="2.0.0"))
    assert newer_accepted(replace(RELEASE, name="other")) is None
    assert newer_accepted(replace(RELEASE, target="tpu")) is None
    assert newer_accepted(replace(RELEASE, version="2.0.0+build.7")) is None
    assert newer_accepted(replace(RELEASE, version="today")) is None


def test_what_nobody_signed_does_not_make_a_signed_release_old() -> None:
    signed = replace(RELEASE, signer="ab" * 32)
    accept(replace(RELEASE, version="9.0.0"))
    assert newer_accepted(signed) is None
    accept(replace(signed, version="1.5.0"))
    assert newer_accepted(signed) == "1.5.0"
    assert newer_accepted(RELEASE) == "9.0.0"
    assert newer_accepted(replace(signed, signer="cd" * 32)) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"net gap8": 7}', b"[" * 100_000])
def test_a_damaged_file_is_begun_anew(config: Path, content: bytes) -> None:
    config.mkdir()
    (config / "accepted.json").write_bytes(content)
    assert newer_accepted(RELEASE) is None
    accept(RELEASE)
    assert newer_accepted(replace(RELEASE, version="0.1.0")) == "1.0.0"


def test_the_file_is_for_its_owner_alone(config: Path) -> None:
    accept(RELEASE)
    assert [path.name for path in config.iterdir()] == ["accepted.json"]
    assert stat.S_IMODE((config / "accepted.json").stat().st_mode) == 0o600
    (config / "accepted.json").chmod(0o666)
    assert newer_accepted(replace(RELEASE, version="0.1.0")) is None


def test_where_nothing_can_be_written_nothing_fails(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("a file in the folder's place")
    accept(RELEASE)
    assert newer_accepted(RELEASE) is None
    monkeypatch.setenv("NNKIT_CONFIG", str(config.parent / "other"))
    (config.parent / "other" / "accepted.json").mkdir(parents=True)
    accept(RELEASE)
    assert newer_accepted(RELEASE) is None
    assert [path.name for path in (config.parent / "other").iterdir()] == ["accepted.json"]
