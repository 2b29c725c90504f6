"""Commands on what is installed: targets, tools, schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnkit.cli.help_page import Commands
from nnkit.cli.help_words import help_command
from nnkit.cli.options import JsonOption

app = Commands()
targets_app = Commands(help="List the installed targets, show one, or begin a new one.", no_args_is_help=True)
PANEL = "What is installed"
app.add_typer(targets_app, name="targets", rich_help_panel=PANEL)


@targets_app.command("list")
def targets_list(json: JsonOption = False) -> None:
    """List the installed targets."""
    from nnkit.commands.targets import list_command

    list_command(json=json)


@targets_app.command("show")
def targets_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The target.")], json: JsonOption = False
) -> None:
    """Show a target's memories, options and constraints."""
    from nnkit.commands.targets import show_command

    show_command(name, json=json)


@targets_app.command("new")
def targets_new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new target.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where its package goes.")] = Path("."),
    json: JsonOption = False,
) -> None:
    """Write the package of a new target that runs, to go on from."""
    from nnkit.commands.new_target import new_command

    new_command(name, out, json=json)


@app.command(rich_help_panel=PANEL)
def doctor(
    install: Annotated[
        str | None, typer.Option("--install", metavar="TARGET", help="Install the tools of this target.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the tools that targets use: what is found, what is missing, how to get it."""
    from nnkit.commands.doctor import doctor_command, install_command

    if install is not None:
        install_command(install, json=json)
    else:
        doctor_command(json=json)


@app.command(rich_help_panel=PANEL)
def explain(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Such as NK202; none lists all.")] = None,
    json: JsonOption = False,
) -> None:
    """Say what an error code means, and what to do."""
    from nnkit.commands.explain import explain_command

    explain_command(code, json=json)


@app.command(rich_help_panel=PANEL)
def rules(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of a rule or an edit; none lists all.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say what a rule of `restructure` does, or list all of them."""
    from nnkit.commands.rules import rules_command

    rules_command(name, json=json)


@app.command(rich_help_panel=PANEL)
def schema(
    report: Annotated[bool, typer.Option("--report", help="The schema of report.json instead.")] = False,
) -> None:
    """Print the JSON Schema of recipes, for editors."""
    from nnkit.commands.schema import report_schema_command, schema_command

    if report:
        report_schema_command()
    else:
        schema_command()


@app.command("help", rich_help_panel=PANEL)
def help_(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Such as `run`.")] = None,
) -> None:
    """Explain a command, or list all of them."""
    help_command(context, command or [])
