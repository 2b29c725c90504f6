"""The command line's outermost layer: every way to end has its exit code, and none shows a traceback unasked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys
import nnkit.commands.doctor as doctor
from nnkit.cli import main
from nnkit.errors import ModelError, NnkitError

def command(*, json):
    {body}

doctor.doctor_command = command
sys.argv = ["nnkit", "doctor", *{arguments}]
main()
"""
LOADING = """
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise ImportError("initialization failed") from None  # what an extension module makes of it
"""


def run(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(body=body, arguments=arguments)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("pass", 0, ""),
        ("os.kill(os.getpid(), signal.SIGINT); signal.pause()", 130, "interrupted; the last good build is unchanged"),
        (
            "os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
            130,
            "interrupted; the last good build is unchanged",
        ),
        (LOADING, 130, "interrupted; the last good build is unchanged"),
        ("raise ModelError('no weights', where='net.onnx', remedy='export again')", 3, "net.onnx: no weights"),
        ("raise MemoryError", 2, "out of memory"),
        ("open('/nonexistent/file')", 2, "/nonexistent/file: No such file or directory"),
        ("raise ValueError('odd')", 70, "a bug in nnkit: ValueError: odd"),
        ("raise ImportError('initialization failed')", 70, "a bug in nnkit: ImportError"),
    ],
    ids=["done", "interrupt", "end", "interrupt while loading", "model", "memory", "file", "bug", "import"],
)
def test_every_end_has_its_exit_code(body: str, code: int, said: str) -> None:
    done = run(body)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    if code in (2, 3, 70):
        assert "fix: " in done.stderr


def test_debug_shows_where_it_happened() -> None:
    done = run("raise ValueError('odd')", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "ValueError: odd" in done.stderr


def test_interrupts_that_the_caller_ignores_stay_ignored() -> None:
    """As a shell starts a job in the background."""
    body = "os.kill(os.getpid(), signal.SIGINT); print('survived')"
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SCRIPT.format(body=body, arguments=())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "survived\n")


def nnkit(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'nnkit'; from nnkit.cli import main; main()"]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_help_is_a_command_too() -> None:
    assert nnkit("help").stdout == nnkit("--help").stdout
    assert nnkit().stdout.strip() == nnkit("--help").stdout.strip()
    assert nnkit("help", "package", "verify").stdout == nnkit("package", "verify", "--help").stdout
    done = nnkit("help", "pln")
    assert (done.returncode, "did you mean 'plan'" in done.stderr) == (2, True)


def test_the_shell_completes_commands_and_options() -> None:
    """As bash asks: the words so far, and which of them is being written."""

    def completed(words: str) -> list[str]:
        asked = {"_NNKIT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return nnkit(**asked).stdout.split()

    assert completed("nnkit pl") == ["plan"]
    assert completed("nnkit run --exec") == ["--executor"]
    assert completed("nnkit package ver") == ["verify"]
