"""A job's control group holds what a tree of processes loses; skipped where this user may make none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnkit.serve.control_group import ControlGroup, make_group, own_group
from nnkit.serve.processes import JobProcesses
from tests.serve.test_serve_processes import DAEMON, lives

# Waits to be put into its group, starts what gets away, and ends: nobody adopts, and nobody has looked.
LEADER = f"""
import subprocess, sys
sys.stdin.readline()
subprocess.run([sys.executable, '-c', {DAEMON!r}], env={{}})
"""


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    made = make_group(own_group(), f"test-{os.getpid()}", 1 << 30)
    if made is None:
        pytest.skip("this user may make no control groups here")
    yield made
    made.kill()
    made.remove()


def test_what_nobody_saw_leave_is_measured_and_ended(group: ControlGroup) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", LEADER], start_new_session=True, **pipes) as leader:
        processes = JobProcesses(leader.pid, group)
        assert leader.stdin is not None
        assert leader.stdout is not None
        leader.stdin.write(b"go\n")
        leader.stdin.close()
        daemon = int(leader.stdout.readline())
        leader.wait()
        assert lives(daemon)
        assert group.members() == [daemon]
        assert 64 << 20 < processes.resident_bytes() < 300 << 20
        processes.end()
        assert not lives(daemon)
    assert group.members() == []
    assert not group.reached_its_limit()
    group.remove()
    assert not group.path.exists()


def test_without_groups_there_is_none(tmp_path: Path) -> None:
    assert make_group(None, "x", None) is None
    assert make_group(tmp_path / "gone", "x", None) is None
    assert ControlGroup(tmp_path / "gone").held_bytes() is None


def test_what_the_kernel_counts_is_what_counts(tmp_path: Path) -> None:
    """The files of cgroup v2 as the kernel's documentation has them."""
    (tmp_path / "memory.stat").write_text("anon 4096\nfile 1000000\nshmem 100\n")
    (tmp_path / "memory.events").write_text("low 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 1\n")
    assert ControlGroup(tmp_path).held_bytes() == 4196
    assert ControlGroup(tmp_path).reached_its_limit()
