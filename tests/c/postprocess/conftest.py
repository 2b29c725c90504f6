"""Builds the generated C of the CPU-side stages with a test driver, under the sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nnkit.c.postprocess.emit import emit_postprocess
from nnkit.postprocess import Stage

HERE = Path(__file__).parent
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic-errors"]
SANITIZERS = ["-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]


def run_compiler(compiler: str, arguments: Sequence[str], cwd: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    done = subprocess.run([compiler, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def compile_sources() -> Callable[..., None]:
    """Compiles every emitted .c file in a folder to objects: (compiler, standard, folder, *flags)."""

    def compile_all(compiler: str, standard: str, folder: Path, *flags: str) -> None:
        sources = sorted(path.name for path in folder.glob("*.c"))
        assert sources
        run_compiler(compiler, [f"-std={standard}", *WARNINGS, "-O2", *flags, "-c", *sources], folder)

    return compile_all


@pytest.fixture(scope="session")
def run_driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[Stage], str, bytes], bytes]:
    """Emits the stages, builds them with a driver of this folder, feeds it bytes and returns what it writes."""
    built: dict[tuple[tuple[Stage, ...], str], Path] = {}

    def run(stages: Sequence[Stage], driver: str, data: bytes = b"") -> bytes:
        key = (tuple(stages), driver)
        if key not in built:
            folder = tmp_path_factory.mktemp("driver")
            emit_postprocess(stages, folder)
            sources = sorted(path.name for path in folder.glob("*.c"))
            arguments = [
                "-std=c99",
                *WARNINGS,
                *SANITIZERS,
                "-I.",
                *sources,
                str(HERE / driver),
                "-o",
                "driver",
                "-lm",
            ]
            run_compiler("gcc", arguments, folder)
            built[key] = folder / "driver"
        done = subprocess.run([built[key]], input=data, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    return run
