"""The PMSIS side of a deployment compiles without a warning against stub headers, and runs a session through them.

The stub runs the cores in the wrong order, gives weights only when they are waited for, and aborts where a byte of
flash is programmed that was not erased, or where a part of a sector is erased.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit.deployed import Deployed
from nnkit.deployed.session import LOAD, SEARCH, Command, trace_bytes
from nnkit.deployment import plan_deployment
from tests.deployment.conftest import RECIPE, Project, build_of, write_networks
from tests.deployment.sessions import commands, python_session, session_bytes
from tests.gap8.artifacts import STRICT, compile_only, has

STUB = Path(__file__).parent.parent / "gap8/pmsis_stub"
HARNESS = Path(__file__).parent / "pmsis_session.c"
SANITIZED = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def artifact(project: Project) -> Path:
    return project.outcome.folder / "artifact"


def includes(artifact: Path) -> list[Path]:
    return [artifact, artifact / "pmsis", artifact / "session", STUB]


def sources(artifact: Path, *more: str) -> list[Path]:
    """The deployment's C without the session, its port and store, and the named files besides."""
    description = json.loads((artifact / "deployment.json").read_text())
    own = [name for name in description["sources"] if name != "session/session.c"]
    return [artifact / name for name in (*own, "pmsis/nnkit_port_pmsis.c", "pmsis/nnkit_store_pmsis.c", *more)]


def run(artifact: Path, work: Path, files: list[Path], *flags: str) -> subprocess.CompletedProcess[str]:
    """Compile with sanitizers and run in `work`, beside weights.bin."""
    command = ["gcc", "-std=gnu99", *SANITIZED, *flags, *(f"-I{path}" for path in includes(artifact))]
    subprocess.run([*command, "-o", str(work / "app"), *map(str, files), str(STUB / "pmsis_host.c")], check=True)
    shutil.copy(artifact / "weights.bin", work)
    return subprocess.run([str(work / "app")], cwd=work, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_calls_what_the_sdk_declares(compiler: str, artifact: Path, tmp_path: Path) -> None:
    if not has(compiler):
        pytest.skip(f"no {compiler}")
    command = (compiler, "-std=gnu99")
    assert compile_only(command, sources(artifact), includes(artifact), tmp_path) == ""
    # The SDK's pmsis_kickoff takes a function as `void *`, which ISO C does not know.
    relaxed = [flag for flag in STRICT if flag != "-pedantic"]
    assert compile_only(command, [artifact / "pmsis/main.c"], includes(artifact), tmp_path, relaxed) == ""


def test_a_session_through_the_calls_of_pmsis(artifact: Path, deployed: Deployed, tmp_path: Path) -> None:
    """Networks, search, enrolment, removal, storage and loading give the bytes that Python gives."""
    python = python_session(deployed)
    wanted = b"".join(python.answer(command).result for command in commands())
    (tmp_path / "commands.bin").write_bytes(session_bytes(deployed))
    files = [*sources(artifact, "session/session.c"), HARNESS]
    done = run(artifact, tmp_path, files, "-DNNKIT_STAGES", "-Wall", "-Wextra", "-Werror")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results.bin").read_bytes() == wanted
    assert (tmp_path / "trace.bin").read_bytes() == trace_bytes(python.trace)
    assert python.store is not None
    assert (tmp_path / "store.bin").read_bytes() == b"".join(python.store.slots)


def test_a_store_that_does_not_erase_is_found_out(artifact: Path, deployed: Deployed, tmp_path: Path) -> None:
    copy = tmp_path / "artifact"
    shutil.copytree(artifact, copy)
    store = copy / "pmsis/nnkit_store_pmsis.c"
    text, count = re.subn(r"pi_flash_erase\(.*\);", "(void)store;", store.read_text())
    assert count == 1
    store.write_text(text)
    (tmp_path / "commands.bin").write_bytes(session_bytes(deployed))
    done = run(copy, tmp_path, [*sources(copy, "session/session.c"), HARNESS], "-DNNKIT_STAGES")
    assert done.returncode != 0


def test_the_example_application_runs(artifact: Path, deployed: Deployed, tmp_path: Path) -> None:
    """pmsis/main.c on an empty flash and a gray frame: what it prints is what Python gives for them."""
    python = python_session(deployed)
    gray = np.full(deployed.stages.frame if deployed.stages else (), 128, np.uint8)
    status = int.from_bytes(python.answer(Command(LOAD)).result, "little", signed=True)
    faces = python.answer(Command(SEARCH, frame=gray)).faces
    done = run(artifact, tmp_path, sources(artifact, "pmsis/main.c"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"gallery: {status}, 0 entries"
    assert re.fullmatch(rf"tiny: status 0, \d+ cycles, {len(faces)} faces", lines[1])
    assert lines[2:] == [f"somebody at {face.box.x},{face.box.y}" for face in faces]


def test_a_session_as_a_task_of_the_cluster(tmp_path: Path) -> None:
    """With `cluster`: tiles moved by the stub's DMA, which takes addresses of 32 bits."""
    write_networks(tmp_path)
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("cores: 3", "cluster: {l1: 16KiB}"))
    build = build_of(tmp_path / "recipe.yaml")
    deployed = plan_deployment(build).deployed
    artifact, work = tmp_path / "artifact", tmp_path / "work"
    build.deployer.emit(deployed, build.options, artifact)
    work.mkdir()
    relaxed = [flag for flag in STRICT if flag != "-pedantic"]
    files = [*sources(artifact), artifact / "pmsis/main.c"]
    assert compile_only(("gcc", "-std=gnu99"), files, includes(artifact), work, relaxed) == ""
    python = python_session(deployed)
    wanted = b"".join(python.answer(command).result for command in commands())
    (work / "commands.bin").write_bytes(session_bytes(deployed))
    files = [*sources(artifact, "session/session.c"), HARNESS]
    flags = ("-no-pie", "-fno-sanitize=all", "-DSTUB_LOW_MEMORY", "-DNNKIT_PORT_PARALLEL", "-DNNKIT_STAGES")
    done = run(artifact, work, files, *flags)
    assert done.returncode == 0, done.stderr
    assert (work / "results.bin").read_bytes() == wanted
    assert (work / "trace.bin").read_bytes() == trace_bytes(python.trace)
    assert python.store is not None
    assert (work / "store.bin").read_bytes() == b"".join(python.store.slots)
