"""A release that could not be signed is refused before anything is built, by `check` as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from nnkit_command import run_nnkit
from small_project import write_project


@pytest.mark.parametrize(
    ("content", "reason", "remedy"),
    [
        (None, "the signing key 'release.pem'", "check the path"),
        (b"not a key", "is not a private key in PEM", "openssl genpkey -algorithm ed25519"),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_key_that_cannot_sign_is_refused_at_once(
    command: str, content: bytes | None, reason: str, remedy: str, tmp_path: Path
) -> None:
    recipe = write_project(tmp_path)
    recipe.write_text(recipe.read_text().replace("{version: 1.2.3}", "{version: 1.2.3, key: release.pem}"))
    if content is not None:
        (tmp_path / "release.pem").write_bytes(content)
    arguments = [command, str(recipe), *(["--out", str(tmp_path / "out")] if command == "run" else [])]
    done = run_nnkit(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert remedy in done.stderr
    assert not (tmp_path / "out" / "small").exists()
