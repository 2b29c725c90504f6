"""The one place that starts a program, and the one that makes the command of a Python child."""

from __future__ import annotations

import errno
import fnmatch
import os
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from nnkit.children.search import found_program, given_path, leave_out_relative

Stream: TypeAlias = IO[bytes] | int

EVERYTHING = ("*",)
MINIMAL = (
    *("HOME", "LANG", "LC_*", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER", "XDG_*"),
    *("GLIBC_TUNABLES", "LD_*", "MALLOC_*", "MKL_*", "NNKIT_*", "OMP_*", "OPENBLAS_*", "ORT_*"),
)
"""Variables of places, of language, and of how libraries are loaded and compute."""


def start(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.DEVNULL,
    stderr: Stream = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that a signal to its group ends all that it starts.

    Args:
        command: a program's name on PATH, or its absolute path; and its arguments.
        folder: where it runs. environment: all of its variables.

    Raises OSError where it cannot be started.
    """
    program = command[0] if os.path.isabs(command[0]) else found_program(command[0])
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "no program of that name is on PATH", command[0])
    variables = dict(environment)
    leave_out_relative(variables)
    return subprocess.Popen(
        [program, *command[1:]],
        cwd=folder,
        env=variables,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def python_child(
    module: str, *arguments: str, variables: Mapping[str, str] | None = None, inherited: Sequence[str] = MINIMAL
) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a Python process that runs a module of the installation.

    Args:
        variables: in addition to those that it inherits.
        inherited: patterns of these. `EVERYTHING` for a process that itself starts programs of the user's.
    """
    patterns, given = tuple(inherited), given_path()
    environment = {
        name: value
        for name, value in os.environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    if given:
        environment["PYTHONPATH"] = os.pathsep.join(given)
    return [sys.executable, *isolation(), "-m", module, *arguments], environment | dict(variables or {})


def isolation() -> list[str]:
    """Flags of a Python that finds what this one has found, and nothing else: `-I` where PYTHONPATH and packages of
    the user's (`pip install --user`) are not in use."""
    no_variables = [] if given_path() else ["-E"]
    no_user_packages = [] if site.ENABLE_USER_SITE else ["-s"]
    flags = ["-I"] if no_variables and no_user_packages else ["-P", *no_variables, *no_user_packages]
    return [*flags, "-B"] if sys.dont_write_bytecode else flags
