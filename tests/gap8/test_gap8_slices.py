"""Input channels in slices: 32-bit sums are kept from slice to slice, and every value stays the same."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nnkit.errors import ToolError
from nnkit.program import FusedPool, Program, Window
from nnkit_gap8.cluster.tile_search import Part, _best_tiling, best_tilings
from nnkit_gap8.cluster.tiled_ops import describe
from nnkit_gap8.runners import HostRunner, execute_on_host
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


def test_a_slices_weights_that_are_not_waited_for_are_caught(tmp_path: Path) -> None:
    r = Random(8)
    r._conv(r.fresh((76, 3, 4), S16), S16, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), 4, weight_bits=16)
    program = r.program()
    write_cluster_artifact(program, tmp_path, cluster_options(L1_BYTES))
    runner = HostRunner(parts=2, flags=("-O0",))
    compare(program, tmp_path, runner, (0,))
    text = (tmp_path / "nnkit_tiles.c").read_text()
    assert WAIT_FOR_LOADS in text
    broken = WAIT_FOR_LOADS.replace("if (", "if (tiles->ahead.slice == 0 && ")
    (tmp_path / "nnkit_tiles.c").write_text(text.replace(WAIT_FOR_LOADS, broken))
    with pytest.raises(ToolError, match="transfer: "):
        compare(program, tmp_path, runner, (0,))


def test_the_search_stops_where_nothing_is_to_be_gained() -> None:
    """The best of all cuts with slices of any size, each of which is searched for itself."""
    program = sliced_layers()
    for op, budget_bytes in ((program.ops[0], 9 << 10), (program.ops[4], 14 << 10), (program.ops[6], 30 << 10)):
        described = describe(op, program, cluster_options().core_machine())
        assert not isinstance(described, str)
        part = Part(*described, described[0].channels)
        sizes = range(part.op.slices.groups if part.op.slices is not None else 0)
        each = [_best_tiling(part, budget_bytes, size, math.inf) for size in sizes]
        best = best_tilings([part], budget_bytes)
        assert best is not None
        assert best[0].cycles == min(tiling.cycles for tiling in each if tiling is not None)
        assert all(tiling.least_cycles <= tiling.cycles for tiling in each if tiling is not None)
