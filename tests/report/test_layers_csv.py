"""`layers.csv`: what each layer takes in memory, by hand and against the plan."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from program_builder import block_needs, face_network

from nnkit.memory.plan import Region, nothing_placed
from nnkit.report.csv_cell import plain_cell
from nnkit.report.layers_csv import COLUMNS, PLANNED, layer_table, layer_table_csv
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.planner import plan

FACE = face_network()
PLAN = plan(
    FACE,
    block_needs,
    MemoryMachine(Region("l1", 65536), Region("l2", 524288), Region("l3", 1 << 23), 1000, 2000),
)


def test_layer_statistics_by_hand() -> None:
    rows = {row["layer"]: row for row in layer_table(FACE, PLAN)}
    row = rows["fire3.expand3x3"]
    assert row["op"] == "conv2d"
    assert row["input_bytes"] == 32 * 15 * 15 * 2
    assert row["output_bytes"] == 128 * 15 * 15 * 2
    assert row["weight_bytes"] == 128 * (32 * 9 * 2 + 4)
    assert row["scratch_bytes"] == 4 * 32 * 9 * 2
    assert row["in_place"] == "no"
    assert rows["fire3"]["in_place"] == rows["descriptor"]["in_place"] == "yes"
    # By hand: the image and both planes of conv1 lie beside each other, then its weights; then what is reserved.
    assert rows["conv1"]["input_bytes"] == 128 * 128 * 2
    base = int(rows["fire3"]["output_address"].removeprefix("l2+"))
    assert rows["fire3.expand1x1"]["output_address"] == f"l2+{base}"
    assert row["output_address"] == f"l2+{base + 128 * 15 * 15 * 2}"


def test_the_largest_row_is_the_peak() -> None:
    rows = layer_table(FACE, PLAN)
    assert max(row["peak_bytes"] for row in rows) == PLAN.regions["l2"].peak_bytes
    assert min(row["peak_bytes"] for row in rows) < PLAN.regions["l2"].peak_bytes


def test_csv_holds_the_rows_in_order_with_what_was_measured() -> None:
    measured = [{"name": op.name, "sqnr_db": None, "clip_rate": 0.5, "proof": "proven"} for op in FACE.ops]
    rows = list(csv.DictReader(io.StringIO(layer_table_csv(FACE, PLAN, measured))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["layer"] for row in rows] == [op.name for op in FACE.ops]
    assert [{k: str(v) for k, v in row.items()} for row in layer_table(FACE, PLAN)] == [
        {key: row[key] for key in PLANNED} for row in rows
    ]
    assert {(row["sqnr_db"], row["clip_rate"], row["proof"]) for row in rows} == {("", "0.5", "proven")}


def test_a_target_that_places_nothing_has_the_same_columns_and_most_of_them_filled() -> None:
    rows = layer_table(FACE, nothing_placed("vendor"))
    assert all(tuple(row) == PLANNED for row in rows)
    conv = next(row for row in rows if row["layer"] == "fire3.expand3x3")
    assert (conv["shape"], conv["macs"]) == ("128x15x15", 128 * 15 * 15 * 32 * 9)
    assert conv["weight_bytes"] == 128 * (32 * 9 * 2 + 4)
    assert [row["first_step"] for row in rows] == list(range(len(rows)))
    empty = sum(value == "" for row in rows for key, value in row.items() if key != "tags")
    assert empty < len(rows) * len(PLANNED) / 2


def test_names_that_a_spreadsheet_would_run_are_marked_as_text_and_numbers_are_not() -> None:
    evil = replace(FACE, ops=(replace(FACE.ops[0], name="=1+2"), *FACE.ops[1:]))
    measured = [{"name": "=1+2", "sqnr_db": -3.5}]
    row = next(csv.DictReader(io.StringIO(layer_table_csv(evil, nothing_placed("vendor"), measured))))
    assert (row["layer"], row["sqnr_db"]) == ("'=1+2", "-3.5")
    assert [plain_cell(text) for text in ("@a", "+a", "-a", "\ta")] == ["'@a", "'+a", "'-a", "'\ta"]
    assert [plain_cell(text) for text in ("a-b", "", -1)] == ["a-b", "", -1]
