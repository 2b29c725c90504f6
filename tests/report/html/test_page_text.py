"""What the page says, against the report that it is made of."""

from __future__ import annotations

import copy
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import UserFileError
from nnkit.report.html.files import PageFiles, read_page_files
from nnkit.report.html.page import page_html
from nnkit.report.html.verdict import figures_of, overlap_in, peak_layers, verdict_of
from nnkit.report.html.words import (
    breakable,
    byte_size,
    cosine_in_words,
    count,
    milliseconds,
    ranked_otherwise,
    share,
    shortly,
)


@pytest.fixture(scope="module")
def files(small_build: Path) -> PageFiles:
    return read_page_files(small_build)


def test_one_small_file_that_asks_for_nothing_else(small_build: Path) -> None:
    page = (small_build / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_000_000
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_a_run_without_emulation_is_reproduced_without_and_says_where_its_time_is(small_build: Path) -> None:
    page = (small_build / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<code>nnkit run \S+ --target gap8 --no-qemu</code>", page)
    assert "the runner that counts was skipped by --no-qemu" in page


def test_the_command_writes_the_same_bytes_again(small_build: Path) -> None:
    page = small_build / "report.html"
    before = page.read_bytes()
    page.unlink()
    done = CliRunner().invoke(app, ["report", str(small_build), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"page": str(page), "bytes": len(before)}
    assert page.read_bytes() == before


def test_a_folder_that_is_no_build_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exception is not None
    assert "not a build" in str(done.exception)


def test_a_picture_that_leads_out_of_the_build_is_not_put_into_the_page(tmp_path: Path) -> None:
    """By a name: whoever gets the page would get the file. A build that holds a link is refused."""
    build = tmp_path / "build"
    (build / "verify/pictures").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(b"secret")
    (build / "verify/pictures/linked.png").symlink_to(tmp_path / "secret.png")
    (build / "verify/pictures/own.png").write_bytes(b"own")
    named = [f"verify/pictures/{name}" for name in ("../../../secret.png", "own.png", "gone.png")]
    report = {"verify": {"worst": [{"picture": name} for name in named]}}
    (build / "report.json").write_text(json.dumps(report))
    (build / "plan.json").write_text("{}")
    with pytest.raises(UserFileError, match=r"linked.png: is a link to"):
        read_page_files(build)
    (build / "verify/pictures/linked.png").unlink()
    assert read_page_files(build).pictures == {"verify/pictures/own.png": b"own"}


def test_a_build_of_another_version_is_told_to_be_built_again(small_build: Path, tmp_path: Path) -> None:
    for name in ("report.json", "plan.json"):
        shutil.copy(small_build / name, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    del report["planner"]
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(done.exception, UserFileError)
    assert "is not one of this version" in str(done.exception)
    assert "nnkit run" in done.exception.remedy


def test_a_memory_without_a_limit_does_not_count_as_full(files: PageFiles) -> None:
    def headline(**memory: tuple[int, int]) -> str:
        use = {
            name: {"peak_bytes": peak, "capacity_bytes": capacity, "lower_bound_bytes": peak, "proven_optimal": True}
            | ({"limited": False} if peak == capacity else {})
            for name, (peak, capacity) in memory.items()
        }
        return figures_of(PageFiles(changed(files.report, memory=use), files.plan))[0].headline

    assert headline(arena=(4096, 16384), caller=(500, 500)).startswith("25.0")
    assert headline(arena=(4096, 4096), caller=(500, 500)).endswith(" of arena")


def test_a_memory_that_the_targets_tool_plans_is_told_as_an_estimate(files: PageFiles) -> None:
    spans = [{"name": "segment 1", "size_bytes": 1024}, {"name": "segment 2", "size_bytes": 61440}]
    memory = {"name": "segments", "title": "Maps alive at once", "capacity_bytes": None, "spans": spans}
    fits = figures_of(PageFiles(changed(files.report, memory={}), files.plan, drawn={"memories": [memory]}))[0]
    assert fits.headline == "60\u2009KiB (estimate)"
    assert fits.lines[0].note == "maps alive at once; most in segment 2"


def test_what_is_measured_against_labels_comes_first(files: PageFiles) -> None:
    metrics = [
        {"name": "top1_agreement", "program": 1.0, "float": None},
        {"name": "top1_accuracy", "program": 0.9, "float": 0.91},
    ]
    task = {"kind": "classification", "metrics": metrics, "facts": {}}
    report = changed(files.report, verify={**files.report["verify"], "task": task})
    assert figures_of(PageFiles(report, files.plan))[1].headline == "top1 accuracy 0.9"


def test_boxes_that_share_bytes_at_one_time_are_told_from_those_that_follow_each_other() -> None:
    def box(first: int, last: int, offset: int) -> dict[str, Any]:
        return {"region": "l2", "first_step": first, "last_step": last, "offset_bytes": offset, "size_bytes": 10}

    assert overlap_in({"buffers": {"a": box(0, 1, 0), "b": box(1, 2, 9)}}, "l2")
    assert not overlap_in({"buffers": {"a": box(0, 1, 0), "b": box(1, 2, 10), "c": box(2, 3, 0)}}, "l2")


def test_names_break_where_their_parts_end_and_formats_are_short() -> None:
    assert breakable("features.3/conv_a<b") == "features.<wbr>3/<wbr>conv_<wbr>a&lt;b"
    assert breakable("") == ""
    assert shortly("s16.12") == "s16.12"
    assert shortly("s8 affine per channel") == "s8 per channel"
    assert shortly("u8 affine 0.0511822, zero at 3") == 'u8 <small class="nowrap">× 0.0512, zero 3</small>'


def changed(report: Any, **values: Any) -> Any:
    return {**copy.deepcopy(dict(report)), **values}


def test_the_verdict_says_what_was_not_run_and_why(files: PageFiles) -> None:
    good = verdict_of(files.report)
    assert (good.word, [p.state for p in good.proofs]) == ("Passed", ["agrees", "not run"])
    assert "--no-qemu" in good.proofs[1].text
    verify = copy.deepcopy(files.report["verify"])
    not_run = {
        "how": "host",
        "contract": "not_run",
        "values": 0,
        "mismatches": 0,
        "inputs": 0,
        "reason": "no C compiler",
    }
    unproven = verdict_of(
        changed(files.report, status="unproven", verify={**verify, "program_vs_artifact": [not_run]})
    )
    assert unproven.word == "Not proven"
    assert "no C compiler" in unproven.why
    verify["gates"][0]["passed"] = False
    failed = verdict_of(changed(files.report, status="gate_failed", verify=verify))
    assert (failed.word, "gate cosine" in failed.why) == ("Failed", True)
    assert verdict_of(changed(files.report, status="mismatch")).word == "Failed"


def test_texts_of_a_network_cannot_break_out_of_the_page(files: PageFiles) -> None:
    report = changed(files.report, recipe="<script>alert(1)</script>")
    report["layers"][0]["name"] = "</script><img src=x onerror=alert(1)>"
    page = page_html(PageFiles(report, files.plan))
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_figures_are_the_reports(files: PageFiles) -> None:
    fits, accurate, fast, small = figures_of(files)
    use = files.report["memory"]["l2"]
    line = next(line for line in fits.lines if line.what == "l2")
    assert line.value == f"{byte_size(use['peak_bytes'])} of {byte_size(use['capacity_bytes'])}"
    assert line.filled == pytest.approx(use["peak_bytes"] / use["capacity_bytes"])
    assert accurate.headline.startswith("cosine 0.9")
    assert any(count(files.report["macs"]) == line.value for line in fast.lines)
    assert any(line.note == "small-1.2.3-gap8.nnpkg" for line in small.lines)


def test_time_is_marked_as_an_estimate(files: PageFiles) -> None:
    speed = {"what": "time", "value": 33020, "unit": "cycles", "kind": "estimate", "how": "a simulator"}
    fast = figures_of(PageFiles(changed(files.report, speed=[speed]), files.plan))[2]
    assert fast.headline == "33\u2009020 cycles (estimate)"
    assert ("time", "estimate: a simulator") in [(line.what, line.note) for line in fast.lines]


def test_the_layer_that_makes_the_peak() -> None:
    def buffer(size: int, first: int, last: int) -> dict[str, Any]:
        return {"region": "ram", "offset_bytes": 0, "size_bytes": size, "first_step": first, "last_step": last}

    plan = {
        "steps": [{"op": name} for name in "abbc"],
        "buffers": {"x": buffer(10, 0, 1), "y": buffer(5, 1, 2), "z": buffer(1, 3, 3)},
    }
    assert peak_layers(plan, "ram") == ["b"]
    assert peak_layers(plan, "other") == []


def test_numbers_in_words() -> None:
    assert [byte_size(size) for size in (None, 0, 1023, 1536, 278976, 5 << 20, 3 << 30)] == [
        "–",
        "0\u2009B",
        "1023\u2009B",
        "1.5\u2009KiB",
        "272\u2009KiB",
        "5\u2009MiB",
        "3\u2009GiB",
    ]
    assert [cosine_in_words(value) for value in (None, 1.0, 0.99, 0.9999997946)] == ["–", "1", "0.99", "0.9999998"]
    assert [share(value) for value in (None, 0.0, 0.5, 0.00012)] == ["–", "0.0\u2009%", "50.0\u2009%", "0.012\u2009%"]
    assert count(80140992) == "80\u2009140\u2009992"


def test_engines_are_drawn_over_time(files: PageFiles) -> None:
    lanes = [
        {"name": "compute", "bars": [{"label": "a<b", "start": 50, "end": 150}]},
        {"name": "transfers", "bars": [{"label": "load", "start": 0, "end": 50}]},
    ]
    timeline = {"title": "Layers over time", "unit": "cycles", "length": 200, "lanes": lanes}
    page = page_html(replace(files, drawn={**files.drawn, "timelines": [timeline]}))
    (drawn,) = re.findall(r'<svg class="timeline".*?</svg>', page, re.S)
    assert re.findall(r'x="([\d.]+)" y="(\d+)" width="([\d.]+)"', drawn) == [
        ("250.0", "2", "500.0"),
        ("0.0", "42", "250.0"),
    ]
    assert "a&lt;b: 50 to 150 cycles" in drawn
    assert "compute works 100 of 200 cycles" in drawn
    assert 'class="timeline"' not in page_html(files)


def test_milliseconds_in_words() -> None:
    assert [milliseconds(value) for value in (12.34, 0.0012, 4.7e-05, 0.0, None)] == [
        "12.3",
        "0.0012",
        "< 0.001",
        "0",
        "–",
    ]


@pytest.mark.parametrize(
    ("floats", "program", "wrong"),
    [
        ([[3, 0.9], [1, 0.8], [2, 0.1]], [[3, 0.9], [1, 0.7], [2, 0.1]], [False, False, False]),
        ([[3, 0.9], [1, 0.8], [2, 0.1]], [[1, 0.9], [3, 0.7], [5, 0.1]], [True, True, True]),
        (
            [[3, 0.9], [1, 0.8], [2, 0.1]],
            [[1, 0.5], [3, 0.5], [2, 0.1]],
            [False, False, False],
        ),  # tied in bits
        ([[3, 0.9], [1, 0.9], [2, 0.1]], [[1, 0.5], [3, 0.4], [2, 0.1]], [False, False, False]),  # tied in float
        ([[7, 1.0], [8, 0.9], [9, 0.8]], [[0, 0.9], [4, 0.9], [8, 0.9]], [False, False, False]),  # saturated
    ],
)
def test_answers_are_marked_as_wrong_where_their_rank_differs_and_no_tie_explains_it(
    floats: list[list[float]], program: list[list[float]], wrong: list[bool]
) -> None:
    answer = {"float": floats, "program": program}
    assert [ranked_otherwise(answer, rank) for rank in range(3)] == wrong
