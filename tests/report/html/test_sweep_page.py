"""`sweep.html` in Chromium: every build a row, Pareto pictures whose front is right, and a click to the report."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from nnkit.report.html import sweep_html
from nnkit.report.sweep_rows import Row, figures_of, sweep_csv
from tests.report.html.conftest import Opened


def figures(memory: int, value: float, cycles: int | None = None) -> dict[str, Any]:
    """As of a report with one memory and a task."""
    return figures_of(
        {
            "memory": {"l2": {"peak_bytes": memory}},
            "planner": {"weight_bytes": 10},
            "layers": [],
            "macs": 1000,
            "speed": [] if cycles is None else [{"unit": "cycles", "value": cycles}],
            "verify": {
                "float_vs_program": {"cosine": 0.9, "sqnr_db": 20.0},
                "program_vs_artifact": [{"how": "host"}],
                "task": {"kind": "classification", "metrics": [{"name": "top1", "program": value, "float": 0.95}]},
            },
        }
    )


def test_a_metric_against_the_truth_comes_before_one_against_the_float_network() -> None:
    agreement = {"name": "top1_agreement", "program": 1.0, "float": None}
    accuracy = {"name": "top1_accuracy", "program": 0.9, "float": 0.95}
    report: dict[str, Any] = {
        "memory": {},
        "planner": {"weight_bytes": 10},
        "layers": [],
        "macs": 1,
        "verify": {
            "float_vs_program": {"cosine": 0.9, "sqnr_db": 20.0},
            "program_vs_artifact": [],
            "task": {"kind": "classification", "metrics": [agreement, accuracy]},
        },
    }
    row = figures_of(report)
    assert (row["metric"], row["value"], row["float_value"]) == ("top1_accuracy", 0.9, 0.95)
    report["verify"]["task"]["metrics"] = [agreement]
    row = figures_of(report)
    assert (row["metric"], row["value"], row["float_value"]) == ("top1_agreement", 1.0, None)


PRECISION = "targets.gap8.precision"
ROWS = (
    Row("net", "gap8@a", "ok", {PRECISION: "int8"}, figures=figures(100, 0.5, 70), page="a/report.html"),
    Row(
        "net",
        "gap8@b",
        "ok",
        {PRECISION: "int16"},
        figures=figures(300, 0.9, 90),
        page="b/report.html",
    ),
    Row("net", "gap8@c", "ok", {PRECISION: "x"}, figures=figures(200, 0.4, 60), page="c/report.html"),
    Row(
        "net", "gap8@d", "gate_failed", figures=figures(50, 0.45, 80), page="d.failed/report.html", reason="gate drop"
    ),
    Row("net", "gap8@e", "failed", reason="conv1: does not fit <512 KiB>\n  fix: give more"),
)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.html").write_text(f"<title>report of {name}</title>", encoding="utf-8")
    page = tmp_path / "sweep.html"
    page.write_text(sweep_html("net", ROWS), encoding="utf-8")
    opened = Opened(browser, page)
    yield opened
    opened.page.close()
    assert opened.complaints == []


def test_every_build_is_a_row_and_failures_say_why(opened: Opened) -> None:
    page = opened.page
    rows = page.locator("#sweep-table tbody tr")
    assert rows.count() == len(ROWS)
    assert "conv1: does not fit <512 KiB>" in rows.nth(4).inner_text()
    assert [link.get_attribute("href") for link in page.locator("#sweep-table a").all()] == [
        "a/report.html",
        "b/report.html",
        "c/report.html",
        "d.failed/report.html",
    ]
    page.click("#sweep-table thead button:text-is('cycles')")
    targets = [row.split("\t")[1] for row in rows.all_inner_texts()]
    assert targets == ["gap8@c", "gap8@a", "gap8@d", "gap8@b", "gap8@e"]


def test_the_front_joins_what_nothing_cheaper_equals(opened: Opened) -> None:
    series = "nnkit.charts[{}].chart.getOption().series.find(s => s.name === 'front').data.map(d => d.value)"
    assert opened.page.evaluate(series.format(0)) == [[100, 0.5], [300, 0.9]]  # c costs more than a; d did not pass
    assert opened.page.evaluate(series.format(1)) == [[60, 0.4], [70, 0.5], [90, 0.9]]
    opened.page.select_option("#memory-across", "cycles")
    assert opened.page.evaluate(series.format(0)) == [[60, 0.4], [70, 0.5], [90, 0.9]]


def test_a_click_on_a_point_opens_the_builds_report(opened: Opened) -> None:
    place = "nnkit.charts[0].chart.convertToPixel({seriesIndex: 0}, [300, 0.9])"
    x, y = opened.page.evaluate(place)
    opened.page.locator("#memory-chart").scroll_into_view_if_needed()
    box = opened.page.locator("#memory-chart").bounding_box()
    assert box is not None
    sweep = opened.page.url
    for _ in range(40):  # a chart takes clicks once it is drawn, which on a busy machine is later
        opened.page.mouse.click(box["x"] + x, box["y"] + y)
        opened.page.wait_for_timeout(500)
        if opened.page.url != sweep:
            break
    assert opened.page.title() == "report of b"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible(browser: Browser, tmp_path: Path, scheme: str) -> None:
    page = tmp_path / "sweep.html"
    page.write_text(sweep_html("net", ROWS, "http://127.0.0.1:8787/status"), encoding="utf-8")
    opened = Opened(browser, page, color_scheme=scheme)
    found = Axe().run(opened.page).response["violations"]
    opened.page.close()
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []
    assert opened.complaints == []


def test_builds_that_run_say_where_they_are_and_the_page_follows(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    waiting = [Row("net", "gap8@a", "running", stage="calibrate"), Row("net", "gap8@b", "waiting")]
    page.write_text(sweep_html("net", waiting, dashboard="http://127.0.0.1:8787/status"), encoding="utf-8")
    opened = Opened(browser, page)
    assert "0 of 2 are done" in opened.page.locator("[role=status]").inner_text()
    assert "calibrate" in opened.page.locator("#sweep-table tbody tr").first.inner_text()
    link = opened.page.locator("[role=status] a")
    assert link.get_attribute("href") == "http://127.0.0.1:8787/status"
    with opened.page.expect_navigation():
        page.write_text(sweep_html("net", ROWS[:2], dashboard="http://127.0.0.1:8787/status"), encoding="utf-8")
    assert opened.page.locator("[role=status]").inner_text() == "All are done."
    opened.page.close()
    assert opened.complaints == []


def test_the_table_as_csv_has_the_same_builds() -> None:
    rows = list(csv.DictReader(io.StringIO(sweep_csv(ROWS))))
    assert [row["target"] for row in rows] == [row.target for row in ROWS]
    assert rows[0]["l2_bytes"] == rows[0]["memory_bytes"] == "100"
    assert (rows[0]["metric"], rows[0]["value"], rows[0]["float_value"]) == ("top1", "0.5", "0.95")
    assert rows[1][PRECISION] == "int16"
    assert (rows[4]["status"], rows[4]["cycles"], rows[4]["reason"]) == ("failed", "", ROWS[4].reason)
