"""The page of support in the docs, from the rows of a run of the zoo.

    python -m benchmarks.zoo.page ROWS.jsonl > docs/support.md

Needs no torch. A cell has the SQNR of the Program's outputs against the float network's, in dB, where the artifact
was run and agreed with its Program; otherwise what was refused, or that it failed. A network that the run has not
reached is not in the table.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
_HEAD = """# Which networks are supported

This page is generated from a run of `python -m benchmarks.zoo --rows ROWS.jsonl` by
`python -m benchmarks.zoo.page ROWS.jsonl`: networks as PyTorch exports them, with random weights, through every stage
of a target with the options of `benchmarks/zoo/rows.py`. A number: the artifact was built, run and agreed with its
Program under the target's contract; it is the SQNR in dB of the outputs against the float network's (`exact` where
nothing differs or the arithmetic is float itself). `refused`, with the operators that are to blame: told before
anything is measured, with what would do. Networks that are not in the table were not reached by the run, and say
nothing. A run goes on from the rows that are there: a row says what held when its network was last run.

Numbers are no measure of the quantiser where weights are random: such a network makes more of every error from layer
to layer, in float as well. With noise of 40 dB below the input, about what 8 bits are, and nothing else, outputs of
the float networks have -0.4 dB (inception_v3), 7.6 (resnet50), 10.2 (mobilenet_v2), 18.8 (efficientnet_b0), 45.3
(squeezenet1_1) and 53.5 (alexnet), by `python -m benchmarks.zoo.disturbed`. And four images calibrate, of which
nothing is corrected: that takes eight. [Trained networks](../benchmarks/README.md) say what the arithmetic does.

"""


def page(rows: Sequence[Row]) -> str:
    """A table for each exporter, and the reasons of what failed."""
    exporters = list(dict.fromkeys(row["exporter"] for row in rows))
    targets = list(dict.fromkeys(row["target"] for row in rows))
    text = _HEAD
    for exporter in exporters:
        cells = {(row["network"], row["target"]): cell(row) for row in rows if row["exporter"] == exporter}
        names = sorted({network for network, _ in cells})
        text += f"## Exporter `{exporter}`\n\n| network | {' | '.join(f'`{each}`' for each in targets)} |\n"
        text += f"|---|{'---|' * len(targets)}\n"
        for name in names:
            text += f"| {name} | {' | '.join(cells.get((name, each), 'not run') for each in targets)} |\n"
        text += "\n"
    counts = {each: sum(row["status"] == "ok" for row in rows if row["target"] == each) for each in targets}
    tried = {each: sum(row["target"] == each for row in rows) for each in targets}
    text += ", ".join(f"`{each}` takes {counts[each]} of {tried[each]}" for each in targets) + ".\n"
    failed = [row for row in rows if row["status"] == "failed"]
    if failed:
        text += "\n## What failed\n\n"
        for row in failed:
            reason = " ".join(str(row["reason"]).split())[:160]
            text += f"- {row['network']} ({row['exporter']}) on `{row['target']}`: {reason}\n"
    return text


def cell(row: Row) -> str:
    """What the table says of a row."""
    if row["status"] == "ok":
        return "exact" if row["sqnr_db"] is None else f"{row['sqnr_db']:.1f}"
    if row["status"] == "failed":
        return "**failed**"
    blamed = dict.fromkeys(re.findall(r"\n  (?:[^\n(]*[^\n(\s]) \((\w+)\): ", str(row["reason"])))
    return f"refused: {', '.join(blamed)}" if blamed else "refused"


def main() -> int:
    """Print the page of the rows in the file that is named."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m benchmarks.zoo.page ROWS.jsonl")
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    sys.stdout.write(page([json.loads(line) for line in lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
