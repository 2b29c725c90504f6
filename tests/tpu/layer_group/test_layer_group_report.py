"""The report's values: plain, complete, and those of the plan."""

from __future__ import annotations

import json

from nnkit_tpu.chips import CHIPS
from nnkit_tpu.layer_group.audit import Audit
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.injection import Outcome
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.report import plan_report, tuning_report
from nnkit_tpu.layer_group.slices import SliceCount
from nnkit_tpu.layer_group.tune import Trial, Tuning
from nnkit_tpu.layer_group.vendor_files import Command, InjectedGroup, Profile, Traffic


def test_a_plan(branched: GroupGraph) -> None:
    chip = CHIPS["cv181x"]
    plan = plan_groups(branched, CostModel(chip))
    report = json.loads(json.dumps(plan_report(chip, plan)))
    named = [name for group in report["groups"] for name in group["ops"]] + report["global_layers"]
    assert sorted(named) == sorted(op.name for op in branched.ops)
    for group in report["groups"]:
        assert 0 < group["lane"]["live_bytes"] <= group["lane"]["capacity_bytes"] == 32768


def test_a_comparison() -> None:
    profile = Profile(1000, 400, 3000, 500, (), ())
    vendor = Outcome({"f": ()}, profile, Traffic(5, 2, 3000, 500))
    faster = Profile(900, 400, 3000, 500, (), ())
    ours = Outcome(
        {"f": (InjectedGroup(0, 3, SliceCount(1, 2)),)},
        faster,
        Traffic(4, 1, 2500, 500),
        audit=Audit(1, 14, ()),
        commands=(
            *(Command(False, "load", 0, 100), Command(True, "a", 100, 200), Command(True, "a", 200, 250)),
            *(Command(True, "b", 250, 300), Command(True, "a", 400, 450), Command(False, "store", 450, 500)),
        ),
    )
    trials = (Trial("vendor's cuts", 1000), Trial("cuts", None, "no room"), Trial("slices", 900))
    tuning = Tuning(vendor, ours, None, "slices", trials, CostModel(CHIPS["bm1688"]))  # type: ignore[arg-type]
    report = json.loads(json.dumps(tuning_report(tuning)))
    assert round(report["gain"], 9) == 0.1
    assert report["ours"]["groups"] == {"f": [{"first": 0, "last": 3, "slices": [1, 2]}]}
    assert (report["vendor"]["cycles"], report["ours"]["cycles"]) == (1000, 900)
    assert [trial["refused"] for trial in report["trials"]] == [None, "no room", None]
    assert report["timeline"] == {
        "compute": [["a", 100, 250], ["b", 250, 300], ["a", 400, 450]],
        "transfers": [["load", 0, 100], ["store", 450, 500]],
    }
    assert report["audit"] == {"groups": 1, "actions": 14, "conflicts": [], "not_followed": []}
