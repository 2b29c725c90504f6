"""Where programs and modules are searched: never in the current folder, nor in one that depends on it."""

from __future__ import annotations

import os
import shutil
import site
import sys
from collections.abc import MutableMapping

_LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_FOLDERS = ("NNKIT_CACHE", "NNKIT_CONFIG", "TMPDIR")
"""Variables that name one folder; a child has another working folder than the command."""
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that nnkit was loaded from."""


def settle() -> None:
    """For the command, as it starts: neither what it imports from here on nor what libraries start is searched in the
    current folder, and folders that variables name are the same for its children. A script of the user's that imports
    nnkit keeps its own search path.
    """
    sys.path[:] = import_path()
    leave_out_relative(os.environ)
    for name in _FOLDERS:
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.path.expanduser(os.environ[name]))


def import_path() -> list[str]:
    """What Python searches for modules, without the folder that it was started in, unless nnkit itself lies there or
    PYTHONPATH names it in full."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed
        here = ""
    kept = {_ROOT, *given_path()}
    return [entry for entry in sys.path if entry in kept or (os.path.isabs(entry) and entry != here)]


def given_path() -> list[str]:
    """Folders of modules beside the installation's: PYTHONPATH's, and nnkit's own where it runs from its sources."""
    named = "" if sys.flags.ignore_environment else _absolute(os.environ.get("PYTHONPATH", ""))
    given = named.split(os.pathsep) if named else []
    installed = (*site.getsitepackages(), site.getusersitepackages())
    return [*given, _ROOT] if _ROOT in sys.path and _ROOT not in (*given, *installed) else given


def found_program(name: str) -> str | None:
    """Path of a program: of one with that name on PATH, or the absolute path itself; None where there is none.

    A relative path names none.
    """
    if os.path.dirname(name) and not os.path.isabs(name):
        return None
    return shutil.which(name, path=_absolute(os.environ.get("PATH", "")) or os.defpath)


def leave_out_relative(variables: MutableMapping[str, str]) -> None:
    """Remove entries that depend on the working folder, the empty one included, from variables that list folders.

    A PATH without entries would be the working folder, too: it becomes the system's.
    """
    for name in _LISTS:
        folders = _absolute(variables.get(name, "")) or (os.defpath if name == "PATH" else "")
        if folders:
            variables[name] = folders
        else:
            variables.pop(name, None)


def _absolute(folders: str) -> str:
    return os.pathsep.join(folder for folder in folders.split(os.pathsep) if os.path.isabs(folder))
