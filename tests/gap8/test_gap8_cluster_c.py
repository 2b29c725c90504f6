"""The C of a build in tiles: every dialect, the compiler's builtins, the SDK's calls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit_gap8.runners import HostRunner
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import S8, S16, U8
from tests.c.fixed.random_ops import Random
from tests.gap8.artifacts import DIALECTS, STRICT, compile_only, has, sources
from tests.gap8.clusters import cluster_options, write_cluster_artifact
from tests.gap8.test_gap8_cluster import compare, tiled_layers
from tests.gap8.test_gap8_compilers import STUB

BUILTINS = """
#define NNKIT_TEST_DOT(name, image_type, weight_type, lanes) \\
    static int name(image_type a, weight_type b, int sum) \\
    { \\
        int i; \\
        for (i = 0; i < lanes; ++i) sum = (int)((unsigned)sum + (unsigned)(a[i] * b[i])); \\
        return sum; \\
    }
typedef signed short v2s __attribute__((vector_size(4)));
typedef signed char v4s __attribute__((vector_size(4)));
typedef unsigned char v4u __attribute__((vector_size(4)));
NNKIT_TEST_DOT(__builtin_pulp_sdotsp2, v2s, v2s, 2)
NNKIT_TEST_DOT(__builtin_pulp_sdotsp4, v4s, v4s, 4)
NNKIT_TEST_DOT(__builtin_pulp_sdotusp4, v4u, v4s, 4)
"""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_without_a_warning(dialect: str, tmp_path: Path) -> None:
    compiler = DIALECTS[dialect]
    if not has(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    artifact = tmp_path / "artifact"
    write_cluster_artifact(tiled_layers(1), artifact, cluster_options())
    assert compile_only((*compiler, "-O1"), sources(artifact), [artifact, artifact / "host"], tmp_path) == ""


def test_the_builtins_compute_the_same(tmp_path: Path) -> None:
    """What GAP8's compiler sees, with its builtins as functions that say what they do."""
    program = tiled_layers(2)
    artifact = tmp_path / "artifact"
    write_cluster_artifact(program, artifact, cluster_options(8 << 10))
    (tmp_path / "builtins.h").write_text(BUILTINS)
    flags = ("-O1", "-D__gap8__", "-w", "-include", str(tmp_path / "builtins.h"))
    compare(program, artifact, HostRunner(parts=4, flags=flags), (0, 1))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_port_calls_what_the_sdk_declares(compiler: str, tmp_path: Path) -> None:
    if not has(compiler):
        pytest.skip(f"no {compiler}")
    artifact = tmp_path / "artifact"
    write_cluster_artifact(tiled_layers(1), artifact, cluster_options())
    command = (compiler, "-std=gnu99", "-DNNKIT_PORT_PARALLEL")
    includes = [artifact, artifact / "pmsis", STUB]
    files = [artifact / "pmsis/nnkit_port_pmsis.c", *sources(artifact)]
    assert compile_only(command, files, includes, tmp_path) == ""
    relaxed = [flag for flag in STRICT if flag != "-pedantic"]
    assert compile_only(command, [artifact / "pmsis/main.c"], includes, tmp_path, relaxed) == ""


def test_the_port_runs_the_network_through_the_sdks_calls(tmp_path: Path) -> None:
    """Cores in the wrong order, transfers and weights that come only when waited for: the outputs are still right."""
    r = Random(3)
    x = r.fresh((6, 17, 15), S16)
    for y in (S16, S8):
        r._conv(x, y, r.window(17, 15), 12)
        r._conv(x, y, r.window(17, 15, most=1), 8)
    r.fused(U8, U8, "max")
    program = r.program()
    write_cluster_artifact(program, tmp_path, cluster_options(4 << 10))
    files = [*sources(tmp_path), *sorted((tmp_path / "pmsis").glob("*.c")), STUB / "pmsis_host.c"]
    command = ["gcc", "-std=gnu99", "-g", "-no-pie", "-DSTUB_LOW_MEMORY", "-DNNKIT_PORT_PARALLEL"]
    command += [f"-I{tmp_path}", f"-I{tmp_path / 'pmsis'}", f"-I{STUB}", "-o", str(tmp_path / "app")]
    subprocess.run([*command, *map(str, files)], check=True)
    done = subprocess.run([str(tmp_path / "app")], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "status 0" in done.stdout
    zeros = {name: np.zeros(program.tensors[name].shape, dtype=np.int64) for name in program.inputs}
    expected = plain_reference.run(program, zeros)
    for name in program.outputs:
        for index, value in enumerate(expected[name].ravel()[:8]):
            assert f"{name}[{index}] = {value}\n" in done.stdout
