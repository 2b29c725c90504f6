"""`nnkit ARGUMENTS` as a user starts it, without the second of imports that each start costs.

A process that has imported nnkit waits for commands and forks one child for each. The child has the arguments, the
folder, the environment and the outputs of a process of its own, and what it changes ends with it. What has to be
seen from a cold start (imports, signals, another Python path) starts `python -m nnkit` itself.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn


def run_nnkit(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished command with its outputs as text; `env` is the whole environment, as `subprocess.run` has it."""
    words = [str(argument) for argument in arguments]
    environment = dict(os.environ if env is None else env)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        if environment.get("PYTHONPATH") != os.environ.get("PYTHONPATH"):
            command = [sys.executable, "-m", "nnkit", *words]
            code = subprocess.run(command, cwd=cwd, env=environment, stdout=out, stderr=err, check=False).returncode
        else:
            code = _asked(words, cwd or Path.cwd(), environment, (out.fileno(), err.fileno()))
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["nnkit", *words], code, out.read(), err.read())


def _asked(words: list[str], cwd: Path, environment: dict[str, str], outputs: tuple[int, int]) -> int:
    """The exit code of a command that a child of the waiting process runs."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    paths = [f"/proc/{os.getpid()}/fd/{output}" for output in outputs]
    server.stdin.write(json.dumps([words, str(cwd), environment, paths]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    assert answer, "the process that runs commands has ended"
    return int(answer)


@functools.cache
def _server() -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def _serve() -> None:
    """Waits for commands, one a line, and answers each with its exit code."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as `main` sets it, before numpy is imported
    import warm_import_worker

    from nnkit.importers import tool_process
    from nnkit.target import installed_targets, load_target

    warm_import_worker.start()
    tool_process.run_tool = warm_import_worker.run_warm

    for name in installed_targets():
        load_target(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(words: list[str], cwd: str, environment: dict[str, str], outputs: list[str]) -> NoReturn:
    """Becomes the command, and ends with its exit code."""
    for descriptor, path in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = ["nnkit", *words]
    code = 1
    try:
        from nnkit.cli import main

        main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
