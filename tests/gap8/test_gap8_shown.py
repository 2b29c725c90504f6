"""What a report says of a build for the cluster: time of eight cores, and tiles beside their cycles."""

from __future__ import annotations

from typing import Any

import pytest

from nnkit.program import Window
from nnkit.target import Shown, Table
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.cluster.tile_report import tile_details
from nnkit_gap8.shown import shown
from tests.c.fixed.programs import S16
from tests.c.fixed.random_ops import Random
from tests.gap8.clusters import cluster_options

CLOCK_HZ = 150_000_000
MACS = 8 * 4 * 9 * 10 * 10 + 8 * 8 * 10 * 10  # 3x3 over 4 channels to 8, and 1x1 from 8 to 8


@pytest.fixture(scope="module")
def details() -> dict[str, Any]:
    r = Random(8)
    r._conv(r.fresh((4, 10, 10), S16), S16, Window(3, 3, pad_top=1, pad_bottom=1, pad_left=1, pad_right=1), 8)
    r._conv(r.fresh((8, 10, 10), S16), S16, Window(1, 1), 8)
    r.transpose(S16, (0, 2, 1, 3))
    program, options = r.program(), cluster_options()
    plan, machine = checked_plan(program, options), options.core_machine()
    return {"cluster": tile_details(Cluster(program, machine).tile_plan(plan), plan, program, machine)}


def column(table: Table, name: str) -> list[str | int | float]:
    return [row[table.columns.index(name)] for row in table.rows]


def test_without_a_simulator_time_is_that_of_the_model(details: dict[str, Any]) -> None:
    page, cluster = shown(details, CLOCK_HZ), details["cluster"]
    time, cycles = page.speed
    assert time.value == pytest.approx(1e3 * cluster["modelled_cycles"] / CLOCK_HZ)
    assert "150 MHz, on 8 cores" in time.how
    assert (cycles.value, cycles.kind) == (cluster["modelled_cycles"], "estimate")
    assert f"{MACS / cluster['modelled_cycles']:.2f} multiply-accumulates" in cycles.how
    tiled, on_l2 = page.tables
    assert [len(row) for row in tiled.rows] == [len(tiled.columns)] * 2
    assert [len(row) for row in on_l2.rows] == [len(on_l2.columns)]
    assert not any("gvsoc" in name for name in tiled.columns)
    every = [*column(tiled, "modelled cycles"), *column(on_l2, "modelled cycles")]
    assert sum(map(int, every)) == pytest.approx(cluster["modelled_cycles"], abs=len(every))
    assert set(page.layer_times) == {*column(tiled, "layer"), *column(on_l2, "layer")}


def test_simulated_cycles_go_before_the_model(details: dict[str, Any]) -> None:
    names = [row["layer"] for row in details["cluster"]["layers"]]
    measured = {"cycles": 30_000, f"cycles:{names[0]}": 14_400, f"cycles:{names[1]}": 6_400}
    page = shown(details | {"measured": {"gvsoc": measured, "rv32": {"code_bytes": 1}}}, CLOCK_HZ)
    time, cycles, modelled = page.speed
    assert time.value == pytest.approx(0.2)
    assert (cycles.value, cycles.kind) == (30_000, "measurement")
    assert modelled.value == details["cluster"]["modelled_cycles"]
    tiled, on_l2 = page.tables
    assert column(tiled, "cycles on gvsoc") == [14_400, 6_400]
    assert column(tiled, "MAC per cycle") == ["2.00", "1.00"]  # 28,800 and 6,400 products
    assert column(on_l2, "cycles on gvsoc") == ["-"]
    assert page.layer_times[names[0]].cycles == 14_400
    assert page.layer_times[names[0]].milliseconds == pytest.approx(0.096)


def test_a_build_for_one_core_has_nothing_of_it() -> None:
    page = shown({"measured": {"rv32": {"code_bytes": 1}}}, CLOCK_HZ)
    assert page == Shown()
