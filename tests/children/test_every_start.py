"""No process starts but through `nnkit.children`: every start in the product, found by its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STARTS = {
    "subprocess": ("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "os": ("exec*", "spawn*", "posix_spawn*", "system", "popen", "fork", "forkpty", "startfile"),
    "pty": ("fork", "spawn"),
    "multiprocessing": ("Process", "Pool", "Manager", "*context", "set_*", "spawn", "forkserver", "process", "pool"),
    "multiprocessing.resource_tracker": ("ensure_running", "getfd"),
    "multiprocessing.util": ("*",),
    "concurrent.futures": ("ProcessPoolExecutor",),
    "asyncio": ("create_subprocess_*",),
    "distributed": ("LocalCluster", "Nanny", "SubprocessCluster"),
    "webbrowser": ("*",),
    "runpy": ("*",),
    "shutil": ("which",),
    "sys": ("executable",),
}
"""What starts a process, or names a program to start."""

ELSEWHERE = {
    ("nnkit/commands/page.py", "webbrowser.open"): "the user's browser; PATH is settled as the command starts",
    ("nnkit/executors/dask_cluster.py", "distributed.LocalCluster"): "workers of multiprocessing, isolated",
    ("nnkit/executors/dask_watch.py", "sys.executable"): "in a message",
    ("nnkit/installation.py", "sys.executable"): "in a message",
}


def starts(source: str) -> Iterator[str]:
    """Names of `STARTS` that code uses, annotations apart."""
    tree = ast.parse(source)
    full: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                full[each.asname or top] = each.name if each.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            full |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    annotations = {id(inner) for node in ast.walk(tree) for each in _annotations(node) for inner in ast.walk(each)}
    for node in ast.walk(tree):
        if id(node) not in annotations and isinstance(node, ast.Attribute | ast.Name):
            name = _dotted(node, full)
            module, _, last = name.rpartition(".")
            if any(Path(last).match(pattern) for pattern in STARTS.get(module, ())):
                yield name


def _annotations(node: ast.AST) -> list[ast.AST]:
    return [each for field in ("annotation", "returns") if (each := getattr(node, field, None)) is not None]


def _dotted(node: ast.AST, full: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, full)}.{node.attr}"
    return full.get(node.id, "") if isinstance(node, ast.Name) else ""


def test_every_process_starts_in_one_place() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for package in ("nnkit", "targets")
        for path in (ROOT / package).rglob("*.py")
        for name in starts(path.read_text(encoding="utf-8"))
    }
    assert {each for each in found if not each[0].startswith("nnkit/children/")} == set(ELSEWHERE)
    assert {name for path, name in found if path == "nnkit/children/start.py"} == {
        "subprocess.Popen",
        "sys.executable",
    }


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "import subprocess as s\ns.Popen(['x'])",
        "from subprocess import check_output as ask\nask(['x'])",
        "import os\nos.execvp('x', ['x'])",
        "import os\nlist(map(os.system, ['x']))",
        "from os import posix_spawn\nposix_spawn('x', [], {})",
        "import multiprocessing\nmultiprocessing.get_context('spawn')",
        "import multiprocessing as m\nm.Process(target=print).start()",
        "from multiprocessing import resource_tracker\nresource_tracker.ensure_running()",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
        "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor()",
        "def f():\n    import distributed\n    distributed.LocalCluster()",
        "import shutil\nlist(map(shutil.which, ['x']))",
        "import sys\nrun_tool([sys.executable, '-m', 'x'])",
    ],
)
def test_a_start_elsewhere_is_found(source: str) -> None:
    assert list(starts(source))


def test_what_starts_nothing_is_not() -> None:
    assert not list(
        starts("import subprocess\ndef f(p: subprocess.Popen[bytes]) -> None:\n    p.wait(subprocess.PIPE)")
    )
