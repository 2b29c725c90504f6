"""Programs that are not ours: their output, their limit of time, their end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnkit.errors import ToolError
from nnkit.external_tool import ToolRun, check_not_interrupted, one_beside, run_tool


def python(body: str, timeout_s: float = 60.0, **options: object) -> ToolRun:
    return run_tool([sys.executable, "-c", f"import os, signal, sys, time\n{body}"], timeout_s=timeout_s, **options)


def test_output_and_errors_are_kept_apart(tmp_path: Path):
    run = python("print(os.getcwd()); print(sys.stdin.read(), file=sys.stderr)", folder=tmp_path, stdin=b"given")
    assert (run.output, run.errors, run.code, run.failed) == (f"{tmp_path.resolve()}\n", "given\n", 0, False)
    assert run.checked(remedy="") is run


def test_without_input_there_is_nothing_to_read():
    assert python("print(repr(sys.stdin.read()))").output == "''\n"


def test_environment_is_the_given_one():
    assert python("print(os.environ['A'], 'HOME' in os.environ)", environment={"A": "b"}).output == "b False\n"


def test_lines_are_told_as_they_come_of_both_outputs():
    lines: list[str] = []
    body = "print('one', flush=True); print('two', file=sys.stderr, flush=True); sys.stdout.buffer.write(b'\\xff')"
    run = python(body, on_line=lines.append)
    assert lines == ["one", "two", "\N{REPLACEMENT CHARACTER}"]
    assert run.output == "one\ntwo\n\N{REPLACEMENT CHARACTER}"


def test_failure_tells_the_end_of_what_was_printed():
    run = python("[print(f'line {i}') for i in range(30)]; sys.exit(3)")
    with pytest.raises(ToolError) as caught:
        run.checked("the tool", remedy="do this")
    assert caught.value.reason.splitlines()[:2] == ["the tool ended with code 3", "  line 10"]
    assert caught.value.reason.splitlines()[-1] == "  line 29"
    assert (caught.value.where, caught.value.remedy) == (Path(sys.executable).name, "do this")


def test_crash():
    assert python("os.kill(os.getpid(), signal.SIGSEGV)").ending == "crashed (SIGSEGV)"


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _gone(pid: int) -> bool:
    end = time.monotonic() + 10.0  # a killed process may need a moment to be gone
    while _runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not _runs(pid)


@pytest.mark.parametrize("follow", [False, True])
def test_late_program_is_ended_with_everything_it_started(tmp_path: Path, follow: bool):
    body = "print('begun', flush=True); os.fork(); open('pids', 'a').write(f'{os.getpid()}\\n'); time.sleep(600)"
    options = {"on_line": lambda line: None} if follow else {}
    run = python(body, timeout_s=1.5, folder=tmp_path, **options)
    assert (run.code, run.output, run.failed) == (None, "begun\n", True)
    assert run.ending == "did not end within 1.5 s, and was stopped"
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert all(_gone(pid) for pid in pids)


def test_program_that_ends_but_leaves_a_child_holding_its_output(tmp_path: Path):
    body = "print('begun', flush=True)\nif os.fork() == 0:\n    time.sleep(600)\n"
    started = time.monotonic()
    assert python(body, timeout_s=1.5).output == "begun\n"
    assert time.monotonic() - started < 60


def test_an_error_of_the_follower_ends_the_program(tmp_path: Path):
    def refuse(line: str) -> None:
        raise ValueError(line)

    body = "open('pid', 'w').write(str(os.getpid())); print('begun', flush=True); time.sleep(600)"
    with pytest.raises(ValueError, match="begun"):
        python(body, folder=tmp_path, on_line=refuse)
    assert _gone(int((tmp_path / "pid").read_text()))


def test_program_that_cannot_be_started(tmp_path: Path):
    with pytest.raises(ToolError, match="the tool cannot be started: No such file or directory") as caught:
        run_tool([str(tmp_path / "none")], timeout_s=1.0, name="the tool", remedy="install it")
    assert (caught.value.where, caught.value.remedy) == (str(tmp_path / "none"), "install it")


def test_limits_of_time_follow_the_user_s_factor(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NNKIT_TIME_FACTOR", "0.001")
    run = python("time.sleep(600)", timeout_s=500.0)
    assert (run.code, run.timeout_s) == (None, 0.5)
    assert "NNKIT_TIME_FACTOR" in run.error(remedy="look").remedy


def test_temporary_files_of_a_program_go_with_it():
    run = python("import tempfile; print(tempfile.mkstemp()[1])")
    assert not Path(run.output.strip()).parent.exists()


def test_a_thread_beside_ends_with_the_main_one():
    futures = []

    def interrupted() -> None:
        with one_beside() as beside:
            futures.append(beside.submit(python, "time.sleep(600)"))
            while not futures[0].running():
                time.sleep(0.01)
            futures.append(beside.submit(python, ""))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    waiting, never = futures
    assert waiting.done()
    assert waiting.exception() is not None or waiting.result().code == -9
    assert never.cancelled()
    assert python("").code == 0  # and all is as before
    with one_beside() as beside:
        assert beside.submit(python, "print(1)").result().output == "1\n"


def test_steps_of_a_thread_beside_are_told_that_it_is_over():
    futures = []

    def work() -> None:
        while True:
            check_not_interrupted()
            time.sleep(0.01)

    def failed() -> None:
        with one_beside() as beside:
            futures.append(beside.submit(work))
            raise ValueError("over")

    with pytest.raises(ValueError, match="over"):
        failed()
    assert futures[0].cancelled() or isinstance(futures[0].exception(), ToolError)
    check_not_interrupted()


INTERRUPTED = """
import os, signal, sys, threading, time
from nnkit.external_tool import run_tool

def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as starting a program does: another thread is given it
follow = print if sys.argv[1] == "follow" else None
try:
    run_tool(["sleep", "300"], timeout_s=300.0, on_line=follow)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("how", ["follow", "wait"])
def test_an_interruption_that_another_thread_was_given_ends_the_program(how: str):
    command = [sys.executable, "-c", INTERRUPTED, how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    assert run.stdout == "interrupted\n"


def test_input_that_is_longer_than_a_pipe_holds_reaches_a_program_that_is_slow_to_read():
    text = b"x" * 3_000_000
    code = "import sys, time; time.sleep(1.2); print(len(sys.stdin.buffer.read()))"
    assert run_tool([sys.executable, "-c", code], timeout_s=60.0, stdin=text).output == "3000000\n"
