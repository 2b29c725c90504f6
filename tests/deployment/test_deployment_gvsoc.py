"""A deployment in tiles on the simulated cluster: with the simulator where it is installed, and with a fake one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from nnkit.deployed import Deployed
from nnkit.deployed.session import trace_bytes
from nnkit.deployment import plan_deployment
from nnkit.errors import ToolError
from nnkit_gap8.deployment.runners import GvsocPipelineRunner
from nnkit_gap8.gvsoc_runner import COMMAND_VARIABLE
from tests.deployment.conftest import RECIPE, build_of, write_networks
from tests.deployment.sessions import commands, python_session, session_bytes
from tests.gap8.artifacts import has

needs_compiler = pytest.mark.skipif(not has("riscv64-unknown-elf-gcc"), reason="no rv32 compiler")
needs_gvsoc = pytest.mark.skipif(
    GvsocPipelineRunner().missing() is not None, reason=f"CI cannot install it: {GvsocPipelineRunner().missing()}"
)

FAKE = """
import pathlib, sys
assert pathlib.Path(sys.argv[2]).read_bytes()[:4] == b"\\x7fELF"
assert pathlib.Path("commands.bin").read_bytes() and pathlib.Path("weights.bin").read_bytes()
if sys.argv[1] == "fails":
    sys.exit(5)
for name in ("results", "trace", "store"):
    pathlib.Path(name + ".bin").write_bytes(name.encode())
pathlib.Path("measures.txt").write_text("stage 0 3 300\\nstage 4 2 1000\\n")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Deployed]:
    """The artifact and its deployment."""
    folder = tmp_path_factory.mktemp("in_tiles")
    write_networks(folder)
    (folder / "recipe.yaml").write_text(RECIPE.replace("cores: 3", "cluster: {l1: 16KiB}"))
    build = build_of(folder / "recipe.yaml")
    deployed = plan_deployment(build).deployed
    build.deployer.emit(deployed, build.options, folder / "artifact")
    return folder / "artifact", deployed


@needs_compiler
def test_what_a_simulator_leaves_is_read(
    built: tuple[Path, Deployed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact, deployed = built
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE)
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(fake), "runs"]))
    run = GvsocPipelineRunner().run(artifact, deployed, session_bytes(deployed))
    assert (run.results, run.trace, run.store) == (b"results", b"trace", b"store")
    assert run.stages == {"shrink": (3, 300), "descriptor": (2, 1000)}
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(fake), "fails"]))
    with pytest.raises(ToolError, match="a command failed"):
        GvsocPipelineRunner().run(artifact, deployed, session_bytes(deployed))


@needs_gvsoc
def test_a_session_on_the_simulated_cluster(built: tuple[Path, Deployed]) -> None:
    """Every result, what every stage wrote, and the gallery's slots as Python has them; cycles of every stage."""
    artifact, deployed = built
    python = python_session(deployed)
    wanted = b"".join(python.answer(command).result for command in commands())
    run = GvsocPipelineRunner().run(artifact, deployed, session_bytes(deployed))
    assert run.results == wanted
    assert run.trace == trace_bytes(python.trace)
    assert python.store is not None
    assert run.store == b"".join(python.store.slots)
    assert deployed.stages is not None
    assert {*run.stages} == {*deployed.stages.NAMES}
    assert all(runs > 0 and cycles > 100 * runs for runs, cycles in run.stages.values())
