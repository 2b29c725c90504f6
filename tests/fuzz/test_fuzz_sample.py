"""A sample of the fuzzer's inputs, and that it finds what it is there to find."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from fuzz import __main__ as command
from fuzz import classes, trial
from fuzz.damage import damaged_bytes, damaged_json, damaged_text
from nnkit.errors import UserFileError

ROOT = Path(__file__).resolve().parents[2]


COUNTS = {"arrays": 150, "tables": 150, "recipes": 40, "builds": 25}
COUNTS |= {
    "onnx": 60,
    "caches": 12,
    "packages": 300,
    "images": 300,
    "tflite": 120,
    "uploads": 150,
    "demands": 15,
    "compiled": 60,
    "onnx_forms": 60,
    "children": 2,
}
CAFFE = {"caffe", "caffe_published"}  # sampled in tests/caffe


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_a_sample_of_every_class_ends_in_results_or_errors(name: str, count: int) -> None:
    tally = trial.try_inputs(name, count, seed=20)
    assert tally.findings == []
    assert sum(tally.counts.values()) == count


def test_every_class_has_a_sample() -> None:
    assert set(classes.CLASSES) == COUNTS.keys() | CAFFE


def attempt(given: Any, chance: Random, folder: Path) -> None:
    """Ends in every way that there is."""
    endings = (_raise, _refuse, _refuse_curtly, _exhaust, _hang, _die)
    endings[int(chance.random() * len(endings))]()


def _raise() -> NoReturn:
    raise KeyError("x")


def _refuse() -> NoReturn:
    raise UserFileError("bad", remedy="mend it")


def _refuse_curtly() -> NoReturn:
    raise UserFileError("bad")


def _exhaust() -> None:
    bytearray(1 << 40)


def _hang() -> NoReturn:
    while True:
        pass


def _die() -> NoReturn:
    import os

    os._exit(3)


def test_every_kind_of_ending_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = classes.FileClass(lambda folder: None, attempt, warm_up=0)
    monkeypatch.setattr(trial, "CLASSES", {"bad": bad})
    monkeypatch.setattr(trial, "LIMIT_SECONDS", 0.2)
    tally = trial.try_inputs("bad", 40, seed=1)
    assert sum(tally.counts.values()) == 40
    assert set(tally.counts) == {"refused", "no_remedy", "traceback", "hang", "over_memory"}
    assert any("exit code 3" in said for _, _, said in tally.findings)
    assert any("KeyError" in said for _, _, said in tally.findings)


@pytest.mark.parametrize(
    ("check", "old", "new", "said"),
    [
        ("refuse_includes", "name: small", "name: !include /etc/hostname", "opened"),
        ("_refuse_outside", "net.onnx", "../net.onnx", "may name '../net.onnx'"),
    ],
)
def test_a_recipe_that_reaches_beyond_its_upload_is_found_whatever_the_server_says(
    check: str, old: str, new: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fastapi")
    from fuzz import uploads
    from nnkit.errors import NnkitError
    from nnkit.serve import strangers

    sys.addaudithook(uploads.note_opened)
    (tmp_path / "recipe.yaml").write_text(uploads.SENT_RECIPE.replace(old, new))
    with pytest.raises(NnkitError):
        uploads.read_recipe(tmp_path, {}, "")
    monkeypatch.setattr(strangers, check, lambda *_: None)
    with pytest.raises(AssertionError, match=said):
        uploads.read_recipe(tmp_path, {}, "")


def test_the_same_number_gives_the_same_damage() -> None:
    text = '{"a": [1, 2, {"b": "c"}], "d": 3.5}'
    for number in range(50):
        assert damaged_json(text, Random(number)) == damaged_json(text, Random(number))
        assert damaged_text(text, Random(number)) == damaged_text(text, Random(number))
        assert damaged_bytes(text.encode(), Random(number)) == damaged_bytes(text.encode(), Random(number))
        json.loads(damaged_json(text, Random(number)))


def test_the_command_prints_its_rows() -> None:
    command = [sys.executable, "-m", "fuzz", "tables", "--count", "20", "--seed", "2", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["class"], row["inputs"], row["tracebacks"], row["hangs"], row["over_memory"]) == (
        "tables",
        20,
        0,
        0,
        0,
    )


def test_a_class_without_files_to_start_from_is_not_counted_as_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NNKIT_SHARED", raising=False)
    monkeypatch.setattr("fuzz.caffe.shared_folder", lambda: None)
    assert command.main(["caffe_published", "--count", "5"]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.startswith("caffe_published: not tried: NNKIT_SHARED")) == ("", True)


def test_a_long_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, int]] = []

    def remember(name: str, count: int, seed: int, first: int) -> trial.Tally:
        if len(tried) == 2 and not (tmp_path / "again").exists():
            raise KeyboardInterrupt
        tried.append((first, count))
        return trial.Tally({"passed": count})

    monkeypatch.setattr(command, "try_inputs", remember)
    words = ["tables", "--count", "5000", "--checkpoint", str(tmp_path / "done.json"), "--json"]
    with pytest.raises(KeyboardInterrupt):
        command.main(words)
    (tmp_path / "again").touch()
    assert command.main(words) == 0
    assert command.main(words) == 0
    assert tried == [(0, 500), (500, 2000), (2500, 500), (3000, 2000)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fuzz", "packages", "--count", "1000000"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as run:
        while not list(tmp_path.glob("nnkit_fuzz_*/input")):  # a worker is at its first input
            assert run.poll() is None
            time.sleep(0.02)
        workers = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        run.send_signal(signal.SIGTERM)
        said = run.communicate()[1]
    assert (run.returncode, said) == (130, "interrupted\n")
    assert workers
    assert not [worker for worker in workers if Path("/proc", worker).exists()]
    assert list(tmp_path.iterdir()) == []
