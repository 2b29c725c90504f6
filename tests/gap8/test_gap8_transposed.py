"""Transposed convolutions in tiles: phase by phase from one image, the same values as the definition's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.program import ConvTranspose2d, Fixed, Program, Window
from nnkit_gap8.gvsoc_runner import GvsocRunner
from nnkit_gap8.runners import HostRunner, Rv32Runner, execute_on_host
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import S8, S16, U8, U16, stage_for
from tests.c.fixed.random_ops import Random
from tests.gap8.artifacts import random_inputs
from tests.gap8.clusters import cluster_options, write_cluster_artifact
from tests.gap8.test_gap8_cluster import compare, compare_results, needs_rv32

needs_gvsoc = pytest.mark.skipif(
    GvsocRunner().missing() is not None, reason=f"CI cannot install it: {GvsocRunner().missing()}"
)


def add_transposed(
    r: Random,
    types: tuple[Fixed, Fixed, int],
    shape: tuple[int, int, int],
    outputs: tuple[int, int, int],
    window: Window,
    *,
    leaky: bool = False,
    groups: int = 1,
) -> None:
    """types: of input, output; bits of the weights."""
    x, y, bits = types
    name = r.fresh(shape, x)
    output = r.builder.tensor(r.output(), outputs, y)
    limit = 1 << (bits - 1)
    weight = r.rng.integers(-limit, limit, (shape[0], outputs[0] // groups, window.kernel_h, window.kernel_w))
    stage = stage_for(r.rng, y, x.bits + bits, leaky=1 if leaky else 0)
    r.builder.ops.append(
        ConvTranspose2d(
            name=f"{output}_layer",
            inputs=(name,),
            output=output,
            weight=weight,
            weight_bits=bits,
            weight_frac=0,
            bias=r.rng.integers(-9999, 9999, outputs[0]).astype(np.int32),
            bias_frac=0,
            bias_shift=r.size(0, stage.shift),
            window=window,
            stage=stage,
            groups=groups,
        )
    )


def transposed_layers(seed: int) -> Program:
    """Kernels as long as their stride and longer, strides 1 to 4, rows of less than four pixels, odd sizes."""
    r = Random(seed)
    add_transposed(r, (S16, S16, 16), (7, 9, 11), (6, 18, 22), Window(2, 2, 2, 2))
    add_transposed(r, (S8, S8, 8), (9, 8, 10), (13, 16, 20), Window(3, 3, 2, 2, 1, 1, 1, 1))
    add_transposed(r, (U8, U8, 8), (5, 10, 6), (8, 20, 12), Window(4, 4, 2, 2, 1, 1, 1, 1))
    add_transposed(r, (U8, S16, 16), (3, 7, 3), (5, 14, 6), Window(4, 4, 2, 2, 1, 1, 1, 1))
    add_transposed(r, (S16, S8, 8), (4, 9, 9), (6, 9, 9), Window(3, 3, 1, 1, 1, 1, 1, 1))
    add_transposed(r, (S8, U8, 8), (6, 5, 4), (3, 20, 16), Window(4, 4, 4, 4))
    add_transposed(r, (S16, S16, 16), (3, 6, 7), (9, 18, 16), Window(3, 5, 3, 2, 1, 1, 0, 1), leaky=True)
    add_transposed(r, (S8, S8, 8), (4, 6, 7), (2, 12, 14), Window(5, 6, 2, 2, 1, 1, 2, 2))
    return r.program()


@pytest.mark.parametrize("l1_bytes", [4 << 10, 48 << 10])
def test_every_value_is_the_same_for_any_number_of_cores(l1_bytes: int, tmp_path: Path) -> None:
    program = transposed_layers(3)
    tiles = write_cluster_artifact(program, tmp_path, cluster_options(l1_bytes))
    assert not tiles.untiled
    if l1_bytes == 4 << 10:
        assert sum(tiling.tiles > 2 for tiling in tiles.steps.values()) > 3
    inputs = [random_inputs(program, seed, extreme=bool(seed)) for seed in (0, 1)]
    binary = HostRunner(flags=("-O0", "-fsanitize=address,undefined")).compile(tmp_path, tmp_path, trace=True)
    runs = [execute_on_host(binary, tmp_path, program, inputs, parts=parts, trace=True) for parts in (8, 3, 1)]
    compare_results(program, inputs, runs)


@needs_rv32
def test_the_same_on_rv32(tmp_path: Path) -> None:
    program = transposed_layers(4)
    write_cluster_artifact(program, tmp_path, cluster_options(4 << 10))
    compare(program, tmp_path, Rv32Runner(), (1,))


@needs_rv32
@needs_gvsoc
@pytest.mark.parametrize("parts", [8, 3])
def test_the_same_on_the_simulated_cluster(parts: int, tmp_path: Path) -> None:
    """Stores to every second element, too."""
    program = transposed_layers(5)
    write_cluster_artifact(program, tmp_path, cluster_options(6 << 10, l2_bytes=400 << 10))
    sample = random_inputs(program, 0, extreme=True)
    result = GvsocRunner(parts=parts).run(tmp_path, program, [sample], trace=False)[0]
    expected = plain_reference.run(program, sample)
    for name in program.outputs:
        np.testing.assert_array_equal(result.outputs[name], expected[name], err_msg=name)


def test_others_run_on_l2_and_say_why(tmp_path: Path) -> None:
    r = Random(6)
    add_transposed(r, (S16, S16, 8), (4, 5, 5), (4, 10, 10), Window(2, 2, 2, 2), groups=2)
    add_transposed(r, (S16, S16, 8), (4, 5, 5), (4, 10, 10), Window(1, 2, 2, 2))
    add_transposed(r, (S16, S16, 8), (4, 5, 5), (4, 9, 9), Window(3, 3, 2, 2, 1, 1, 1, 1))
    add_transposed(r, (S16, S16, 8), (4, 5, 5), (4, 10, 12), Window(2, 3, 2, 2, 1, 2))
    add_transposed(r, (S16, S16, 8), (2, 5, 5), (2, 25, 25), Window(5, 5, 5, 5))
    add_transposed(r, (U16, S16, 8), (2, 5, 5), (2, 10, 10), Window(2, 2, 2, 2))
    program = r.program()
    tiles = write_cluster_artifact(program, tmp_path, cluster_options())
    assert list(tiles.untiled.values()) == [
        "grouped transposed convolution",
        "outputs that no tap reaches",
        "an output that is no whole number of strides",
        "dilated transposed convolution",
        "a stride over 4",
        "unsigned input of 16 bits",
    ]
    compare(program, tmp_path, HostRunner(flags=("-O0",)), (0,))
