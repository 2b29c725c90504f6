"""What a process started ends with it, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("processes tell their variables on Linux", allow_module_level=True)

_STARTS = """
import multiprocessing, subprocess, sys, threading, time
from pathlib import Path
from nnkit.external_tool import run_tool
from nnkit.keeper import keep

def work(place):
    script = f"import os, time; open({place!r} + '/' + str(os.getpid()), 'w'); time.sleep(600)"
    run_tool([sys.executable, "-c", script], timeout_s=600)

if __name__ == "__main__":
    place = sys.argv[1]
    keep()
    multiprocessing.get_context("spawn").Process(target=work, args=(place,)).start()
    escaped = "import os, time; os.setsid(); open(%r + '/' + str(os.getpid()), 'w'); time.sleep(600)" % place
    threading.Thread(target=run_tool, args=([sys.executable, "-c", f"import os; os.fork(); {escaped}"],),
                     kwargs={"timeout_s": 600}, daemon=True).start()
    time.sleep(600)
"""


def runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: object, seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def test_tools_of_a_killed_process_and_of_its_workers_end(tmp_path: Path) -> None:
    script, place = tmp_path / "starts.py", tmp_path / "pids"
    script.write_text(_STARTS)
    place.mkdir()
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), TMPDIR=str(tmp_path))
    process = subprocess.Popen([sys.executable, str(script), str(place)], env=environment)
    try:
        assert wait_for(lambda: len(list(place.iterdir())) == 2)
    finally:
        process.kill()
        process.wait()
    pids = [path.name for path in place.iterdir()]
    assert wait_for(lambda: not any(runs(pid) for pid in pids))


_FORKS_TWICE = """
import os
from nnkit.keeper import keep

def fork():
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

keep()
fork()
numbers = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
fork()
for number in numbers:
    os.fstat(number)
"""


def test_a_fork_of_a_fork_keeps_its_files() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKS_TWICE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
