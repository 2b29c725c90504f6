"""How this nnkit came to be installed, and with which words an extra of it is added."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from nnkit.children.search import import_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.metadata import Distribution, EntryPoint

COMMAND = "nnkit"
NAME = "nnkit-release"
"""On package indexes; the package that is imported and the command are `nnkit`."""

TARGETS = "nnkit.targets"
"""The group of entry points that names targets."""

COMMANDS = (
    *("bench", "check", "compare", "diagnose", "doctor", "evaluate", "explain", "help", "init", "package", "plan"),
    *("report", "rules", "run", "schema", "serve", "simulate", "table", "targets", "validate", "verify-wk", "view"),
)
_CALL = re.compile(rf"(?<![\w./-])nnkit (?=({'|'.join(COMMANDS)})\b)")


def as_called(text: str) -> str:
    """A text for people, its commands as they are called here: `./dev run` where a checkout's `dev` started `nnkit`.

    `dev` says in NNKIT_CALLED_AS how it was called itself: there is no `nnkit` on the PATH then.
    """
    called = os.environ.get("NNKIT_CALLED_AS")
    return _CALL.sub(lambda _: f"{called} ", text) if called else text


def own_distribution() -> Distribution | None:
    """What the command `nnkit` was installed with; None where it runs from sources that nobody installed.

    What setuptools leaves beside the sources (`egg-info`) is no installation, though Python lists it as one.
    """
    first = next((entry.dist for entry in _entry_points(group="console_scripts", name=COMMAND)), None)
    if first is None:
        return None
    return next((each for each in _distributions(first.name) if each.read_text("METADATA")), None)


def target_plugins() -> tuple[EntryPoint, ...]:
    """The targets of all installed packages. Metadata in the current folder, beside a model, is no installation."""
    return tuple(_entry_points(group=TARGETS))


def _entry_points(**wanted: Any) -> Iterator[EntryPoint]:
    """Entry points of every package, from the copy that Python finds first. Names are read only of those that have
    any: to read all takes ten times as long."""
    names = (each.name for each in _distributions() if each.entry_points.select(**wanted))
    for name in dict.fromkeys(re.sub(r"[-_.]+", "-", name).lower() for name in names if name):  # PEP 503
        yield from next(iter(_distributions(name))).entry_points.select(**wanted)


def _distributions(name: str | None = None) -> Iterable[Distribution]:
    from importlib.metadata import distributions  # slow to import, and rarely asked

    return distributions(name=name, path=import_path())


def install_command(extra: str) -> str:
    """The command that adds an extra, such as `solver`, to the environment that is running.

    Of an installed package it names that package: pip finds it there and adds what the extra needs. Of a checkout it
    names the checkout.
    """
    distribution = own_distribution()
    checkout = None if distribution is None else _checkout(distribution)
    name = NAME if distribution is None else distribution.name
    wanted = f"{name}[{extra}]" if checkout is None else f"{checkout}[{extra}]"
    return pip_install(f"{'-e ' if checkout else ''}{shlex.quote(wanted)}")


def pip_install(words: str) -> str:
    """The command that installs into the environment that is running; words: what pip is given.

    It leaves out a `pip.py` in the folder that it is typed in (`-P`).
    """
    return f"{shlex.quote(sys.executable)} -P -m pip install {words}"


def _checkout(distribution: Distribution) -> str | None:
    """The folder that an editable install was made from; None for any other."""
    text = distribution.read_text("direct_url.json")  # PEP 610
    if not text:
        return None
    origin = json.loads(text)
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return unquote(urlparse(origin["url"]).path)
