"""Running a mapper: a script plays the vendor's, with success, each message, a hang, a crash."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import pytest
from nnie_wk_files import made

from nnkit.errors import RecipeError, ToolError, UserFileError
from nnkit.recipe import RecipePath
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.mapper.run import STAGES, find_mapper, no_mapper, run_mapper
from nnkit_nnie.options import Mapper, NnieOptions

HEADER = f"#!{sys.executable}\nimport os, signal, sys, time\nassert sys.argv[1:] == ['net.cfg'], sys.argv\n"
STAGED = "".join(f"print('begin {stage} ....', flush=True)\n" for stage in STAGES)
WRITES = "open('inst.wk', 'wb').write(open('sound.wk', 'rb').read())\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "artifact"
    place.mkdir()
    (place / "sound.wk").write_bytes(made(2))
    return place


def script(folder: Path, body: str) -> str:
    path = folder.parent / "nnie_mapper_12"
    path.write_text(HEADER + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def run(folder: Path, body: str, timeout_s: float = 30.0, seen: list[str] | None = None):
    stages: list[str] = [] if seen is None else seen
    return run_mapper(script(folder, body), folder, "net.cfg", "inst", (2, 4), timeout_s, stages.append)


def test_success_with_progress_and_log(folder: Path):
    seen: list[str] = []
    result = run(folder, STAGED + WRITES + "print('end')\n", seen=seen)
    assert tuple(seen) == STAGES == result.stages
    assert result.wk.segments == 2
    assert result.wk_path == folder / "inst.wk"
    assert "begin quant files" in (folder / "mapper.log").read_text()
    assert result.warnings == ()


MESSAGES = [
    (
        "layer[perm] Permute can only support (0,1,2,3) -> (0,2,3,1) order!",
        "mapper, layer perm",
        "run the layer on the CPU",
    ),
    ("arch_version(12) of input model should be 11!", "mapper", "the other generation"),
    ("[ERROR] layer conv5_hp: _hp is invalid when compile_mode is 0", "mapper, layer conv5_hp", "mapper.log"),
    ("Error: unknown layer type 'Foo' (layer: foo_1)", "mapper, layer", "mapper.log"),
]


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize(("line", "where", "remedy"), MESSAGES)
def test_each_failure_message(line: str, where: str, remedy: str, code: int, folder: Path):
    with pytest.raises(ToolError) as caught:
        run(folder, f"print('begin net parsing')\nprint({line!r})\n{WRITES}sys.exit({code})\n")
    assert caught.value.reason == line
    assert caught.value.where.startswith(where)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    "line", ["data containing only zeros; set max value to 1e-6.", "layer[conv1] value[3.1e-08] is too small"]
)
def test_each_warning_is_kept(line: str, folder: Path):
    result = run(folder, f"print({line!r})\nprint({line!r})\n{WRITES}")
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith(line)


def test_words_that_only_sound_like_errors(folder: Path):
    line = "print('quantization error of layer conv1: 0.01')\n"
    assert run(folder, line + WRITES).wk.intact
    (folder / "inst.wk").unlink()
    with pytest.raises(ToolError, match="quantization error"):  # it left nothing: then these words are what there is
        run(folder, line)


def test_error_in_its_own_log(folder: Path):
    with pytest.raises(ToolError, match="not supported"):
        run(folder, "open('mapper_error.log', 'w').write('layer[x] kernel 300 is not supported')\n" + WRITES)


def _runs(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_hang_is_ended_with_everything_it_started(folder: Path):
    body = (
        "print('begin mem allocation', flush=True)\n"
        "child = os.fork()\n"
        "open('pids', 'a').write(f'{os.getpid()}\\n')\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(ToolError, match="did not end within 1 s, and was stopped in the stage 'mem allocation'"):
        run(folder, body, timeout_s=1.0)
    for pid in (int(line) for line in (folder / "pids").read_text().split()):
        ended = time.monotonic() + 10.0  # a killed process may need a moment to be gone
        while _runs(pid) and time.monotonic() < ended:
            time.sleep(0.05)
        assert not _runs(pid)


def test_crash(folder: Path):
    with pytest.raises(ToolError, match=r"crashed \(SIGSEGV\) in the stage 'optimizing'"):
        run(folder, "print('begin optimizing', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)\n")


def test_failure_without_a_message(folder: Path):
    with pytest.raises(ToolError, match="ended with code 9"):
        run(folder, "print('so far so good')\nsys.exit(9)\n")


def test_no_result(folder: Path):
    with pytest.raises(ToolError, match=r"left no inst\.wk"):
        run(folder, STAGED)


def test_damaged_result(folder: Path):
    with pytest.raises(ToolError, match="damaged"):
        run(
            folder,
            "data = bytearray(open('sound.wk', 'rb').read())\ndata[210] ^= 1\nopen('inst.wk', 'wb').write(data)\n",
        )


def test_log_that_is_no_text(folder: Path):
    run(folder, "sys.stdout.buffer.write(bytes(range(128, 256)) + b'\\n')\n" + WRITES)


def test_program_that_cannot_start(folder: Path, tmp_path: Path):
    broken = tmp_path / "broken"
    broken.write_text("#!/nowhere/at/all\n")
    broken.chmod(0o755)
    with pytest.raises(ToolError, match="cannot be started"):
        run_mapper(str(broken), folder, "net.cfg", "inst", (1, 1), 5.0)


def test_the_mapper_of_the_other_generation_is_refused(tmp_path: Path):
    for chip, name, other in (("hi3559av100", "nnie_mapper_12", "1.1"), ("hi3516cv500", "nnie_mapper_11", "1.2")):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        with pytest.raises(RecipeError, match=f"has NNIE {other}") as caught:
            find_mapper(NnieOptions(chip=chip, mapper=Mapper(path=RecipePath.of(tmp_path / name))))
        assert CHIPS[chip].mapper in caught.value.remedy


def test_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for chip, name in (("hi3559av100", "nnie_mapper_11"), ("hi3516cv500", "nnie_mapper_12")):
        assert find_mapper(NnieOptions(chip=chip)) is None
        assert name in no_mapper(CHIPS[chip])
        assert "never compiled" in no_mapper(CHIPS[chip])
        (tmp_path / name).write_text("#!/bin/sh\n")
        os.chmod(tmp_path / name, 0o755)
        assert find_mapper(NnieOptions(chip=chip)) == str(tmp_path / name)
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    mine = NnieOptions(chip="hi3516cv500", mapper=Mapper(path=RecipePath.of(tmp_path / "mine")))
    with pytest.raises(UserFileError, match="not executable"):
        find_mapper(mine)
    os.chmod(tmp_path / "mine", 0o755)
    assert find_mapper(mine) == str(tmp_path / "mine")
    with pytest.raises(RecipeError, match="does not exist"):
        find_mapper(NnieOptions(chip="hi3516cv500", mapper=Mapper(path=RecipePath.of(tmp_path / "none"))))
