"""The soak's own judgement, on a small program in the place of nnkit: what a whole run has to leave, and what not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("processes tell their variables on Linux", allow_module_level=True)

from fuzz import soak
from fuzz.kills import Place

GOOD = 'sleep 0.05; mkdir -p out/small/gap8; echo "$VERSION" > out/small/gap8/report.json; '
OTHERS_COUNT = (
    'mkdir -p "$NNKIT_CACHE"; cat "$NNKIT_CACHE"/* >> out/small/gap8/report.json; echo x > "$NNKIT_CACHE/$$"'
)


def soaked(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch, runs: int = 4) -> tuple[dict[str, int], str]:
    def start(place: Place, version: str) -> subprocess.Popen[bytes]:
        said = (place.folder / "stderr.txt").open("wb")
        environment = place.environment | {"VERSION": version}
        return subprocess.Popen(["sh", "-c", script], cwd=place.folder, env=environment, stderr=said)

    monkeypatch.setattr(Place, "start", start)
    monkeypatch.setattr(soak, "_GONE_SECONDS", 0.2)
    row, findings = soak.soak(folder, ["gap8"], runs, 0.7, seed=1)
    return row, "\n".join(findings)


def test_runs_that_give_what_a_run_alone_gives_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, findings = soaked(GOOD, tmp_path, monkeypatch)
    assert (findings, row["findings"]) == ("", 0)
    assert row["whole"] >= 4


def test_a_run_is_killed_and_the_place_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "_KILLED_SHARE", 1.0)
    monkeypatch.setattr(soak, "_FIRST_SECONDS", 0.2)
    monkeypatch.setattr(soak, "_references", lambda *_: {"gap8": {r: report(r) for r in ("1.0.1", "1.0.3")}})
    row, findings = soaked("[ -e hung ] || { touch hung; exec sleep 30; }; " + GOOD, tmp_path, monkeypatch, runs=1)
    assert (findings, row["whole"]) == ("", 1)
    assert row["killed"] >= 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (OTHERS_COUNT, "differ"),
        ('echo "no entry" >&2; exit 3', "exit code 3 after 0 s: no entry"),
        ("touch $TMPDIR/forgotten", "left behind"),
        ("touch out/small/.gap8.new-1", "left behind"),
        ("sleep 5 & ", "still running"),
    ],
)
def test_what_is_wrong_is_found(more: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "_references", lambda *_: {"gap8": {r: report(r) for r in ("1.0.1", "1.0.3")}})
    row, findings = soaked(GOOD + more, tmp_path, monkeypatch, runs=2)
    assert said in findings
    assert row["findings"] > 0


def report(release: str) -> dict[str, str]:
    """Of a build that has this release as its report."""
    import hashlib

    return {"report.json": hashlib.sha256(f"{release}\n".encode()).hexdigest()}
