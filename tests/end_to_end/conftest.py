"""Running whole recipes: in a folder of their own, with a cache of their own."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nnkit_command import run_nnkit

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Finished:
    """A finished command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Finished]


def run_command(*arguments: object, cwd: Path, env: dict[str, str | None] | None = None) -> Finished:
    """`nnkit ARGUMENTS` as in a process of its own; a variable that `env` gives as None is removed."""
    environment = {**os.environ, **(env or {})}
    done = run_nnkit(*arguments, cwd=cwd, env={k: v for k, v in environment.items() if v is not None})
    assert "Traceback" not in done.stderr, done.stderr
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def nnkit(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """`nnkit` with the test's folder as working folder and a cache that this session's tests share."""
    cache = tmp_path_factory.getbasetemp() / "cache"

    def call(*arguments: object, cwd: Path = tmp_path, env: dict[str, str | None] | None = None) -> Finished:
        return run_command(*arguments, cwd=cwd, env={"NNKIT_CACHE": str(cache), **(env or {})})

    return call


def write_inputs(folder: Path, shape: tuple[int, ...], count: int = 4) -> None:
    """`cal0.npy` ...: seeded float inputs."""
    for index in range(count):
        value = np.random.default_rng(index).normal(0, 1, shape).astype(np.float32)
        np.save(folder / f"cal{index}.npy", value)


def report_of(folder: Path) -> dict[str, Any]:
    """The build's report."""
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by its path."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
