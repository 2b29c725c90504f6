"""The page of a deployment in Chromium: every part without an error, accessible, and with its figures."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from nnkit.report.html import write_page
from tests.deployment.conftest import Project
from tests.report.html.conftest import Opened


def test_every_part_without_errors_and_accessible(browser: Browser, project: Project) -> None:
    opened = Opened(browser, project.outcome.folder / "report.html")
    page, found = opened.page, []
    for tab in ("overview", "memory", "session", "provenance"):
        opened.tab(tab)
        assert page.locator("[role=tabpanel]:visible").count() == 1
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found += [(tab, v["id"], v["nodes"][0]["html"][:200]) for v in Axe().run(page).response["violations"]]
    assert found == []
    opened.tab("memory")
    for region, use in project.outcome.report["memory"].items():
        boxes = page.locator(f"[data-region={region}] svg path").count()
        assert boxes > 0 or not use["peak_bytes"], region
    page.emulate_media(media="print")
    assert page.locator("[role=tabpanel]:visible").count() == 4
    page.close()
    assert opened.complaints == []


def test_time_and_advice_are_the_report_s(project: Project) -> None:
    report = project.outcome.report
    assert report["clock_hz"] == 150_000_000
    for stage in report["stages"]:
        for counts in stage.get("measured", {}).values():
            assert counts["milliseconds"] == pytest.approx(counts["instructions"] / 150e3, abs=1e-6)
    assert report["advice"]
    weights = [each["weight"] for each in report["advice"]]
    assert weights == sorted(weights, key=["high", "medium", "low"].index)
    page = (project.outcome.folder / "report.html").read_text(encoding="utf-8")
    for each in report["advice"]:
        assert each["title"].startswith(("finder: ", "describer: ", "Mind ", "A better plan "))
        assert each["title"] in page
        assert not each["recipe"] or each["recipe"].startswith(("# finder.yaml\n", "# describer.yaml\n"))


def test_a_network_s_name_leads_into_the_build_alone(project: Project, tmp_path: Path) -> None:
    """Whatever the report of a build that was sent says of its folder."""
    build = Path(shutil.copytree(project.outcome.folder, tmp_path / "sent"))
    report = json.loads((build / "report.json").read_text(encoding="utf-8"))
    report["networks"][0]["folder"] = "javascript:alert(1)//"
    report["networks"][1]["folder"] = "https://example.org/x"
    (build / "report.json").write_text(json.dumps(report), encoding="utf-8")
    links = re.findall(r'href="([^"#]+)"', write_page(build).read_text(encoding="utf-8"))
    assert links == ["networks//report.html", "networks/x/report.html"]
