"""All processes of a job are found, measured and ended, whatever session they are in and whoever their parent is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnkit.serve.processes import JobProcesses, can_be_seen

on_linux = pytest.mark.skipif(not can_be_seen(), reason="this system does not tell what processes there are")

# Leaves its parent's session, and is nobody's child: what a daemon does.
DAEMON = """
import os, sys
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    sys.exit()
held = bytearray(b'x') * (64 << 20)
print(os.getpid(), flush=True)
import time; time.sleep(60)
"""
LEADER = f"""
import subprocess, sys, time
from nnkit.serve.processes import adopt_orphans
adopt_orphans()
subprocess.run([sys.executable, '-c', {DAEMON!r}], env={{}})
time.sleep(60)
"""


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def a_job_with_a_daemon() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A worker, and the id of a process that got away from it."""
    with subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        daemon = int(leader.stdout.readline())
        try:
            yield leader, daemon
        finally:
            for pid in (leader.pid, daemon):
                if lives(pid):
                    os.kill(pid, 9)


@on_linux
def test_a_process_that_left_its_session_and_its_parent_counts_and_ends_with_the_job() -> None:
    with a_job_with_a_daemon() as (leader, daemon):
        assert os.getsid(daemon) != leader.pid
        processes = JobProcesses(leader.pid)
        assert 64 << 20 < processes.resident_bytes() < 300 << 20
        processes.end()
        assert leader.wait() == -9
        assert not lives(daemon)
        assert processes.resident_bytes() == 0


@on_linux
def test_what_was_seen_ends_also_when_the_worker_has_ended_before() -> None:
    with a_job_with_a_daemon() as (leader, daemon):
        processes = JobProcesses(leader.pid)
        leader.kill()
        leader.wait()
        assert lives(daemon)
        assert processes.resident_bytes() > 64 << 20
        processes.end()
        assert not lives(daemon)


@on_linux
def test_others_are_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as leader:
            JobProcesses(leader.pid).end()
            assert leader.wait() == -9
        time.sleep(0.05)
        assert other.poll() is None
        other.kill()
