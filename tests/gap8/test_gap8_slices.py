"""Input channels in slices: 32-bit sums are kept from slice to slice, and every value stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.errors import ToolError
from nnkit.program import FusedPool, Program, Window
from nnkit_gap8.cluster import Cluster
from nnkit_gap8.runners import HostRunner, execute_on_host
from nnkit_gap8.tile_search import Part, best_tilings
from nnkit_gap8.tiled_ops import describe
from tests.c.fixed.programs import S8, S16, U8
from tests.c.fixed.random_ops import Random
from tests.gap8.artifacts import random_inputs
from tests.gap8.clusters import cluster_options, write_cluster_artifact
from tests.gap8.test_gap8_cluster import WAIT_FOR_LOADS, compare, compare_results

L1_BYTES = 5 << 10


def sliced_layers() -> Program:
    """Convolutions over so many channels that four output channels' weights do not fit L1 whole."""
    r = Random(7)
    square = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    for x, y, bits, channels in ((S16, S16, 16, 76), (S8, S16, 8, 143), (U8, U8, 8, 143), (U8, S16, 16, 76)):
        r._conv(r.fresh((channels, 5, 6), x), y, square, 10, weight_bits=bits)
    r._conv(r.fresh((66, 9, 7), S16), S8, Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), 6, weight_bits=16)
    r._conv(r.fresh((75, 6, 5), S16), S16, Window(3, 1, 1, 1, 2, 1, 2, 0, 2, 0), 6, weight_bits=16)
    pool = FusedPool("max", Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), 0, 16)
    r._conv(r.fresh((76, 6, 8), S16), S16, square, 6, output_hw=(3, 4), pool=pool)
    return r.program()


def test_every_value_is_the_same_for_any_number_of_cores(tmp_path: Path) -> None:
    program = sliced_layers()
    tiles = write_cluster_artifact(program, tmp_path, cluster_options(L1_BYTES))
    assert set(tiles.slice_groups) == {op.name for op in program.ops}
    inputs = [random_inputs(program, seed, extreme=bool(seed)) for seed in (0, 1)]
    binary = HostRunner(flags=("-O0", "-fsanitize=address,undefined")).compile(tmp_path, tmp_path, trace=True)
    runs = [execute_on_host(binary, tmp_path, program, inputs, parts=parts, trace=True) for parts in (8, 3, 1)]
    compare_results(program, inputs, runs)
