"""`sweep.html`: builds side by side, as one page that opens without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from nnkit.generated import packaged_text
from nnkit.report.html.page import HERE, LICENCES, embedded, page_environment
from nnkit.report.sweep_rows import Row, axes_of, regions_of

_SCRIPTS = ("common.js", "sortable.js", "sweep.js")
_WORDS = {
    "waiting": "waiting",
    "running": "running",
    "ok": "passed",
    "unproven": "not proven",
    "gate_failed": "failed a gate",
    "mismatch": "artifact differs",
    "failed": "could not be built",
}


def sweep_html(title: str, rows: Sequence[Row], dashboard: str = "") -> str:
    """The page. While builds wait or run it says so, and loads itself anew.

    title: the recipe's name. dashboard: where Dask's is; while builds run, the page links to it.
    """
    environment = page_environment()
    under_way = [row for row in rows if row.state in ("waiting", "running")]
    return environment.get_template("sweep.html.j2").render(
        title=title,
        dashboard=dashboard,
        rows=rows,
        axes=axes_of(rows),
        regions=regions_of(rows),
        words=_WORDS,
        under_way=under_way,
        finished=len(rows) - len(under_way),
        data=embedded({"rows": [asdict(row) for row in rows], "regions": regions_of(rows)}),
        style=packaged_text(HERE, "page.css"),
        libraries=[packaged_text(HERE, "vendor", "echarts.min.js")],
        scripts=[packaged_text(HERE, "js", name) for name in _SCRIPTS],
        licences=[(name, packaged_text(HERE, "vendor", f"{name}.txt")) for name in LICENCES if "dagre" not in name],
    )
