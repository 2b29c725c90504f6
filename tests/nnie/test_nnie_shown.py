"""The tables that the page of an NNIE build shows, from a report's details."""

from __future__ import annotations

from nnkit_nnie.shown import shown

DETAILS = {
    "segments": [{"runs_on": "nnie", "layers": 3}, {"runs_on": "cpu", "layers": 1, "what": "warp"}],
    "networks": [{"name": "net", "layers": 3, "mapper": {"status": "never compiled"}}],
    "precision": [],
}


def test_segments_networks_and_no_table_without_rows() -> None:
    segments, networks = shown(DETAILS).tables
    assert segments.rows == ((1, "nnie", 3, ""), (2, "cpu", 1, "warp"))
    assert networks.rows == (("net", 3, "never compiled"),)
    choice = {"choice": "all", "cosine": 1.0, "sqnr_db": None, "weight_bytes": 8, "macs": 4, "macs_16_bit": 1}
    assert shown({**DETAILS, "precision": [choice]}).tables[2].rows == (("all", "1.000000", "-", 8, "25.0%"),)
