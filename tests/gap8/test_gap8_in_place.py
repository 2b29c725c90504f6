"""What the planner puts in place costs no code: no call, no constant that nothing reads, no warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program_builder import ProgramBuilder

from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.options import Gap8Options
from tests.gap8.artifacts import DIALECTS, compile_only, has, sources, write_artifact


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Fire module, whose concatenation is written in place, pooled and reshaped to a descriptor."""
    net = ProgramBuilder()
    x = net.fire(net.input(3, 8, 8), 4, 8, "fire")
    program = net.build(net.reshape(net.pool(x, 8, 8, name="pool"), 16, name="descriptor"))
    plan = checked_plan(program, Gap8Options())
    return write_artifact(program, tmp_path_factory.mktemp("artifact"), plan)


def test_layers_in_place_have_no_call_and_no_constant(artifact: Path) -> None:
    text = (artifact / "net.c").read_text()
    for layer in ("fire", "descriptor"):
        assert f"layer_{layer} " not in text
    assert text.count("already in place") == 2
    kinds = [op["kind"] for op in json.loads((artifact / "network.json").read_text())["ops"]]
    assert kinds.count("concat") == kinds.count("reshape") == 1  # they are still layers, and traced


@pytest.mark.parametrize("dialect", ["gcc-c90", "clang-c99"])
def test_no_warning(dialect: str, artifact: Path, tmp_path: Path) -> None:
    command = DIALECTS[dialect]
    if not has(command[0]):
        pytest.skip(f"no {command[0]}")
    assert compile_only(command, sources(artifact), [artifact], tmp_path) == ""
