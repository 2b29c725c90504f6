"""`report.html` in Chromium: every part without an error, by mouse and keyboard, in both themes, and printed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from nnkit.report.html import write_page
from tests.report.html.conftest import Opened

TABS = ("overview", "layers", "memory", "graph", "accuracy", "rewrites", "provenance")


@pytest.fixture(scope="module")
def report(small_build: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((small_build / "report.json").read_text(encoding="utf-8"))
    return data


@pytest.fixture
def opened(browser: Browser, small_build: Path) -> Iterator[Opened]:
    """The page; nothing may have gone wrong by the test's end."""
    opened = Opened(browser, small_build / "report.html")
    yield opened
    opened.page.close()
    assert opened.complaints == []


def test_every_part_without_errors_and_accessible(opened: Opened) -> None:
    found = []
    for tab in TABS:
        opened.tab(tab)
        assert opened.page.locator("[role=tabpanel]:visible").count() == 1
        for scheme in ("light", "dark"):
            opened.page.emulate_media(color_scheme=scheme)
            violations = Axe().run(opened.page).response["violations"]
            found += [(tab, scheme, v["id"], v["nodes"][0]["html"][:200]) for v in violations]
    assert found == []


def test_the_table_sorts_filters_and_opens_a_layer(opened: Opened, report: dict[str, Any]) -> None:
    opened.tab("layers")
    page, layers = opened.page, report["layers"]

    def shown() -> list[str]:
        return page.locator("#layer-table tbody tr:not([hidden]) button.open").all_inner_texts()

    assert shown() == [layer["name"] for layer in layers]
    for order in (1, -1):
        page.click("#layer-table [data-key=macs]")
        macs = {layer["name"]: layer["macs"] for layer in layers}
        in_order = [order * macs[name] for name in shown()]
        assert in_order == sorted(in_order)
    page.fill("#layer-search", "conv2")
    assert set(shown()) == {layer["name"] for layer in layers if "conv2" in layer["name"] or layer["op"] == "conv2d"}
    page.fill("#layer-search", "")
    page.select_option("#layer-op", "concat")
    assert set(shown()) == {layer["name"] for layer in layers if layer["op"] == "concat"}
    page.select_option("#layer-op", "")
    page.focus("#layer-table tbody tr button.open >> nth=0")
    first = shown()[0]
    page.keyboard.press("Enter")
    dialog = page.locator("#layer-dialog")
    assert first in dialog.inner_text()
    assert all(
        origin in dialog.inner_text() for layer in layers if layer["name"] == first for origin in layer["origins"]
    )
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_tabs_are_walked_with_arrows(opened: Opened) -> None:
    opened.page.focus("#tab-overview")
    for tab in (*TABS[1:], TABS[0]):
        opened.page.keyboard.press("ArrowRight")
        assert opened.page.evaluate("document.activeElement.id") == f"tab-{tab}"
        assert opened.page.locator(f"#{tab}").is_visible()


def test_memory_draws_every_buffer_and_zooms_by_key(opened: Opened, small_build: Path) -> None:
    opened.tab("memory")
    plan = json.loads((small_build / "plan.json").read_text(encoding="utf-8"))
    colours = {kind: opened.page.evaluate(f"nnkit.colour('{kind}')") for kind in ("activation", "weights", "scratch")}
    chart = opened.page.locator('.chart.memory[data-region="l2"]')
    for kind, colour in colours.items():
        wanted = [
            b for b in plan["buffers"].values() if b["region"] == "l2" and b["kind"] == kind and b["size_bytes"]
        ]
        assert chart.locator(f'path[fill="{colour}"]').count() == len(wanted), kind
    chart.focus()
    opened.page.keyboard.press("+")
    zoom = "nnkit.charts.find(c => c.element.dataset.region === 'l2').chart.getOption().dataZoom[0]"
    assert opened.page.evaluate(f"{zoom}.end - {zoom}.start") == pytest.approx(50)
    opened.page.keyboard.press("0")
    assert opened.page.evaluate(f"{zoom}.end - {zoom}.start") == pytest.approx(100)
    opened.page.select_option("#memory-width", "macs")
    assert chart.locator("path").count() > 0


def test_print_shows_all_parts(opened: Opened) -> None:
    page = opened.page
    opened.tab("memory")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("[role=tabpanel]:visible").count() == len(TABS)
    assert not page.locator(".tabs").is_visible()
    widths = page.locator(".chart svg").evaluate_all("all => all.map((each) => each.clientWidth)")
    assert len(widths) == page.locator(".chart").count()
    assert all(width <= 700 for width in widths)
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("[role=tabpanel]:visible").count() == 1
    assert page.locator("#memory .chart svg").first.evaluate("each => each.clientWidth") > 1000


@pytest.mark.parametrize("stage", ["before", "after"])
def test_the_graph_has_every_node_in_the_colour_of_its_layer(opened: Opened, small_build: Path, stage: str) -> None:
    opened.tab("graph")
    opened.page.select_option("#graph-stage", stage)
    nodes = json.loads((small_build / "page.json").read_text(encoding="utf-8"))["graph"][stage]["nodes"]
    assert {node["layer"] for node in nodes} != {None}
    colour = opened.page.evaluate("nnkit.colour('activation')")
    drawn = opened.page.locator(f'#graph-chart path[fill="{colour}"]').count()
    assert drawn == sum(node["layer"] is not None for node in nodes)  # all run on the NPU
    opened.page.select_option("#graph-colour", "bits")
    assert "16 bits" in opened.page.locator("#graph-legend").inner_text()


def test_what_a_build_calls_its_unit_is_text(browser: Browser, small_build: Path, tmp_path: Path) -> None:
    build = Path(shutil.copytree(small_build, tmp_path / "sent"))
    report = json.loads((build / "report.json").read_text(encoding="utf-8"))
    report["machine"]["layers_run_on"] = unit = "<img src=x onerror=alert(1)>"
    (build / "report.json").write_text(json.dumps(report), encoding="utf-8")
    opened = Opened(browser, write_page(build))
    opened.tab("graph")
    legend = opened.page.locator("#graph-legend")
    assert (unit in legend.inner_text(), legend.locator("img").count()) == (True, 0)
    opened.page.close()
    assert opened.complaints == []


def test_accuracy_shows_depth_and_the_worst_inputs(opened: Opened, report: dict[str, Any]) -> None:
    opened.tab("accuracy")
    assert opened.page.locator("#depth-chart path").count() > len(report["layers"])
    shown = opened.page.locator(".pictures li b").all_inner_texts()
    assert shown == [entry["input"] for entry in report["verify"]["worst"]]
    widths = opened.page.evaluate("[...document.querySelectorAll('.pictures img')].map(i => i.naturalWidth)")
    assert widths == [40] * len(shown)
