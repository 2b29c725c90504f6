"""The worker of imports (`nnkit.importers.tool_worker`) without the half second of imports that each start costs.

A process that has imported the tools waits for folders and forks one child for each, which is limited and ends as a
worker of its own would. What needs a cold start (another Python path) starts one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import nnkit.external_tool
from nnkit.external_tool import ToolRun
from nnkit.trust import user_settings

_LOOK_SECONDS = 0.5
_WORKER = ["-m", "nnkit.importers.tool_worker"]


def run_warm(command: Sequence[str], *, environment: Mapping[str, str], timeout_s: float) -> ToolRun:
    """As `run_tool`, which it stands in for in `nnkit.importers.tool_process`."""
    assert list(command[-3:-1]) == _WORKER
    if os.environ.get("PYTHONPATH", "") != _server()[1]:
        return nnkit.external_tool.run_tool(command, environment=environment, timeout_s=timeout_s)
    timeout_s *= user_settings().time_factor
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_server()[0])
        settings = {name: value for name, value in environment.items() if name.startswith("NNKIT_")}
        connection.sendall(json.dumps([command[-1], timeout_s, settings]).encode() + b"\n")
        code, errors = json.loads(connection.makefile().read())
    return ToolRun(command[0], code, timeout_s, "", errors)


@functools.cache
def _server() -> tuple[str, str]:
    """Where it listens, and its Python path. The first process starts it; what that forks uses the same."""
    folder = tempfile.mkdtemp(prefix="import-worker-")
    address = f"{folder}/socket"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    starter = os.getpid()

    def end() -> None:
        if os.getpid() == starter:
            process.kill()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return address, os.environ.get("PYTHONPATH", "")


def start() -> None:
    """Start it now: for a process that forks children, which then share it."""
    _server()


def _serve(address: str) -> None:
    for unused in ("torch", "sympy"):  # as the worker leaves them out
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    import onnxsim  # noqa: F401

    import nnkit.importers.tool_steps
    import nnkit.importers.tool_worker  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    started_by = os.getppid()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        listening.settimeout(_LOOK_SECONDS)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while os.getppid() == started_by:  # which may be killed, and has no time then to end this process
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listening.close()
                _answer(connection)
            connection.close()
    shutil.rmtree(Path(address).parent, ignore_errors=True)


def _answer(connection: socket.socket) -> NoReturn:
    """Runs one worker in a child and says how it ended: [exit code or null, standard error]."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder, timeout_s, settings = json.loads(connection.makefile().readline())
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(errors.fileno(), 2)
            for name in [name for name in os.environ if name.startswith("NNKIT_")]:
                del os.environ[name]
            os.environ.update(settings)
            _work(folder)
        end = time.monotonic() + timeout_s
        pause_s = 0.0005
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        code: int | None = None
        if ended == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        else:
            code = os.waitstatus_to_exitcode(ended[1])
        errors.seek(0)
        said: Any = [code, errors.read().decode(errors="replace")]
    connection.sendall(json.dumps(said).encode())
    connection.close()
    os._exit(0)


def _work(folder: str) -> NoReturn:
    import traceback

    from nnkit.importers.tool_worker import main

    code = 1
    try:
        code = main(Path(folder))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
