"""The layer groups and cycles that a page shows, from a report's details."""

from __future__ import annotations

from typing import Any

import pytest

from nnkit_tpu.options import TpuOptions
from nnkit_tpu.report import layer_milliseconds
from nnkit_tpu.shown import shown

CHIP = {"chip": "bm1688", "precision": "int8"}


def group(ops: list[str], live_bytes: int) -> dict[str, Any]:
    lane = {"capacity_bytes": 1000, "live_bytes": live_bytes}
    sizes = {"estimated_cycles": 7, "load_bytes": 8, "store_bytes": 9}
    return {"ops": ops, "slices": {"n": 1, "h": 2, "counts_tried": 3}, "lane": lane, **sizes}


def test_groups_become_spans_and_compiled_cycles_go_before_planned_ones() -> None:
    plan = {
        "groups": [group(["a", "b"], 600), group(["c"], 400)],
        "estimated_cycles": 14,
        "layer_cycles": {"a": 9, "b": 4},
    }
    planned = shown({**CHIP, "plan": plan})
    (memory,) = planned.memories
    assert memory.capacity_bytes == 1000
    assert [(s.first_layer, s.last_layer, s.size_bytes) for s in memory.spans] == [("a", "b", 600), ("c", "c", 400)]
    assert [row[1:5] for row in planned.tables[0].rows] == [("a", "b", 2, "1 x 2"), ("c", "c", 1, "1 x 2")]
    time, cycles = planned.speed
    assert (cycles.value, cycles.unit) == (14, "cycles")
    assert time.value == pytest.approx(14 / 900e3)
    assert (time.unit, time.kind, "900 MHz" in time.how) == ("ms", "estimate", True)
    compiled = shown({**CHIP, "plan": plan, "layer_groups": {"ours": {"cycles": None}, "vendor": {"cycles": 12}}})
    assert compiled.speed[1].value == 12
    assert shown({**CHIP, "plan": {**plan, "groups": []}}).memories == ()


def test_the_released_models_commands_become_a_timeline() -> None:
    plan = {"groups": [], "estimated_cycles": 14, "layer_cycles": {}}
    lanes = {"compute": [["a", 2, 9]], "transfers": [["load", 0, 2], ["store", 9, 12]]}
    (timeline,) = shown({**CHIP, "plan": plan, "layer_groups": {"ours": {"cycles": 12}, "timeline": lanes}}).timelines
    assert (timeline.length, timeline.unit) == (12, "cycles")
    assert [(lane.name, [(bar.label, bar.start, bar.end) for bar in lane.bars]) for lane in timeline.lanes] == [
        ("compute", [("a", 2, 9)]),
        ("transfers", [("load", 0, 2), ("store", 9, 12)]),
    ]
    no_simulator = {"ours": {"cycles": None}, "timeline": {"compute": [], "transfers": []}}
    assert shown({**CHIP, "plan": plan, "layer_groups": no_simulator}).timelines == ()


def test_a_chip_without_a_simulator_of_cycles_has_a_bound_by_its_stated_rate() -> None:
    plan = {"groups": [], "estimated_cycles": 14, "layer_cycles": {}}
    (bound,) = shown({"chip": "cv181x", "precision": "int8", "macs": 1_000_000_000, "plan": plan}).speed
    assert (bound.value, bound.unit, bound.kind) == (4.0, "ms", "estimate")  # 2e9 operations at 0.5e12 a second
    assert "lower bound" in bound.how
    assert shown({"chip": "cv182x", "precision": "int8", "macs": 10, "plan": plan}).speed == ()


def test_layers_have_the_time_of_their_arithmetic() -> None:
    plan = {"groups": [], "estimated_cycles": 14, "layer_cycles": {"a": 9, "b": 4}}
    times = layer_milliseconds(TpuOptions(chip="bm1688"), plan, {"a": 10, "b": 0})
    assert times == pytest.approx({"a": 1e-5, "b": 4 / 900e3})  # 900 MHz
    layers = shown({**CHIP, "plan": plan, "layer_milliseconds": times}).layer_times
    assert {name: (time.milliseconds, time.cycles) for name, time in layers.items()} == {
        "a": (times["a"], 9),
        "b": (times["b"], 4),
    }
    bound = layer_milliseconds(TpuOptions(chip="cv181x"), plan, {"a": 1_000_000_000, "b": 0})
    assert bound == {"a": 4.0, "b": 0.0}  # 2e9 operations at 0.5e12 a second
    bounded = shown({"chip": "cv181x", "precision": "int8", "macs": 1, "plan": plan, "layer_milliseconds": bound})
    assert [time.cycles for time in bounded.layer_times.values()] == [None, None]
    assert layer_milliseconds(TpuOptions(chip="cv182x"), plan, {"a": 10}) == {}
