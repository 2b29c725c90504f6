"""Commands on descriptors and calibration tables."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from nnkit.cli.help_page import Commands
from nnkit.cli.options import JsonOption
from nnkit.defaults import FALSE_POSITIVE_RATE

app = Commands()
table_app = Commands(help="Write a calibration table as another kind.", no_args_is_help=True)
PANEL = "Tables"
app.add_typer(table_app, name="table", rich_help_panel=PANEL)


class Metric(Enum):
    """How `evaluate` compares descriptors: by cosine similarity or Euclidean distance."""

    cosine = "cosine"
    l2 = "l2"


@app.command(rich_help_panel=PANEL)
def evaluate(
    features: Annotated[
        Path, typer.Argument(metavar="FEATURES", help="Descriptors: .npz, .npy, lines of name and numbers, a folder.")
    ],
    pairs: Annotated[
        Path | None, typer.Option("--pairs", metavar="FILE", help="CSV of pairs: first,second,same (1 or 0).")
    ] = None,
    by_folder: Annotated[
        bool, typer.Option("--by-folder", help="Judge all pairs; names in one folder are of one person.")
    ] = False,
    metric: Annotated[Metric, typer.Option("--metric", help="How alike two descriptors are.")] = Metric.cosine,
    fpr: Annotated[
        float, typer.Option("--fpr", min=0.0, max=1.0, help="False-positive rate at which recall is told.")
    ] = FALSE_POSITIVE_RATE,
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FEATURES", help="Another run's descriptors to compare with.")
    ] = None,
    ranges: Annotated[
        Path | None, typer.Option("--ranges", metavar="FILE", help="Write vmin and vdiff of every dimension (CSV).")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Score descriptors from a board, a simulation or the float network: verification, ranges, distance."""
    from nnkit.commands.evaluate import evaluate_command

    evaluate_command(
        features,
        pairs=pairs,
        by_folder=by_folder,
        metric=metric.value,
        false_positive_rate=fpr,
        against=against,
        ranges=ranges,
        json=json,
    )


@table_app.command("convert")
def table_convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="nnkit's table, that of a target's compiler, pinned formats, a QDQ model, or a build folder.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    to: Annotated[
        str, typer.Option("--to", metavar="KIND", help="nnkit, pinned, or a target whose compiler has such tables.")
    ] = "nnkit",
    onto: Annotated[
        Path | None,
        typer.Option("--onto", metavar="BUILD", help="Write this build's table with TABLE's ranges in it."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the ranges of a table of any known kind as another."""
    from nnkit.commands.table import convert_command

    convert_command(source, out, to=to, onto=onto, json=json)
