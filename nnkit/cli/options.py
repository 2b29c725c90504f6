"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe (YAML).")]
TargetOption = Annotated[
    list[str] | None, typer.Option("--target", "-t", metavar="NAME", help="Only this target (repeatable).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Compute every stage anew.")]
BuildArgument = Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")]
PackageArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A release archive.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A value of the recipe: verify.gates.cosine=0.9 (repeatable)."),
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Again whenever the recipe or its model changes.")]
