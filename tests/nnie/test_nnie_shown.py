"""The tables that the page of an NNIE build shows, from a report's details."""

from __future__ import annotations

from typing import Any

from nnkit_nnie.shown import shown

DETAILS: dict[str, Any] = {
    "chip": "Hi3516DV300",
    "estimate": {"milliseconds": 1.25, "speed_measured": True},
    "layer_milliseconds": {"conv": 1.0, "fc": 0.25},
    "segments": [
        {"runs_on": "nnie", "layers": 3, "first": "a", "last": "c", "alive_bytes": 96},
        {"runs_on": "cpu", "layers": 1, "what": "warp", "first": "d", "last": "d", "alive_bytes": 0},
    ],
    "networks": [{"name": "net", "layers": 3, "mapper": {"status": "never compiled"}}],
    "precision": [],
}


def test_what_segments_are_networks_and_no_table_without_rows() -> None:
    (networks,) = shown(DETAILS).tables
    assert shown(DETAILS).segments == ("", "warp")
    unnamed = [{**each, "what": ""} for each in DETAILS["segments"]]
    assert shown({**DETAILS, "segments": unnamed}).segments == ()
    assert networks.rows == (("net", 3, "never compiled"),)
    choice = {"choice": "all", "cosine": 1.0, "sqnr_db": None, "weight_bytes": 8, "macs": 4, "macs_16_bit": 1}
    choice |= {"layers": ["a"], "built": False, "estimate": {"milliseconds": 0.346}}
    choices = shown({**DETAILS, "precision": [choice]}).tables[1]
    assert choices.rows == (("all layers", "1.000000", "-", 8, "25.0%", "0.35 ms"),)
    assert len(choices.columns) == len(choices.rows[0])


def test_choices_of_a_detector_are_shown_by_agreement_and_not_by_cosine() -> None:
    metrics = [{"name": "detection_agreement", "program": 0.5}, {"name": "mean_overlap", "program": None}]
    row = {"choice": "no_hp", "cosine": 0.999, "sqnr_db": 9.0, "weight_bytes": 8, "macs": 4, "macs_16_bit": 0}
    row |= {"layers": [], "built": True, "task_kind": "detection", "task": metrics}
    choices = shown({**DETAILS, "precision": [row]}).tables[1]
    assert choices.columns[1:3] == ("detection agreement", "mean overlap")
    assert choices.rows == (("no layer (no_hp)", "0.5000", "-", 8, "0.0%", "-"),)


def test_milliseconds_are_an_estimate_with_its_model_and_segments_lie_over_their_layers() -> None:
    page = shown(DETAILS)
    (speed,) = page.speed
    assert (speed.value, speed.unit, speed.kind) == (1.25, "ms", "estimate")
    assert "fitted to public measurements of the Hi3516DV300" in speed.how
    (memory,) = page.memories
    assert memory.capacity_bytes is None
    assert [(span.first_layer, span.last_layer, span.size_bytes, span.kind) for span in memory.spans] == [
        ("a", "c", 96, "activation"),
        ("d", "d", 0, "weights"),
    ]


def test_choices_that_the_run_measured_come_with_the_lines_that_ask_for_them() -> None:
    row = {"cosine": 1.0, "macs": 4, "macs_16_bit": 1}
    rows = [
        {**row, "choice": "no_hp", "layers": [], "sqnr_db": 15.0, "weight_bytes": 8, "built": True},
        {**row, "choice": "firstconv_hp", "layers": ["a"], "sqnr_db": 25.0, "weight_bytes": 10, "built": False},
    ]
    built, first = shown({**DETAILS, "precision": rows}).tried
    assert (built.built, first.built, first.sqnr_db) == (True, False, 25.0)
    assert (first.layers, first.options, first.everywhere) == (("a",), "compile_mode: 2", False)
    detecting = [{**each, "task_kind": "detection", "task": []} for each in rows]
    assert shown({**DETAILS, "precision": detecting}).tried == ()
