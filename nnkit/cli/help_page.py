"""What `--help` prints: usage, arguments, commands under their headings, options.

Plain text with headings in colour on a terminal. Typer's own pages of boxes need the library rich, which takes longer
to import than all else that `nnkit --help` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from nnkit.errors import ExitCode
from nnkit.terminal import in_colour, print_help

Rows: TypeAlias = list[tuple[str, str]]


class CommandPage(TyperCommand):
    """A command with such a page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the command's name in the line of usage."""
        return [*(_name(argument) for argument in _arguments(self, ctx)), "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """All that follows the text."""
        _write(formatter, {"Arguments": _described(self, ctx), "Options": _options(self, ctx)})


class GroupPage(TyperGroup):
    """A group of commands with such a page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As of a command."""
        return ["[OPTIONS]", "COMMAND ..."]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a command the page, where Typer would write an error's line below it."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            print_help(ctx.get_help())
            raise typer.Exit(ExitCode.USER)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """As of a command."""
        _write(formatter, {**_commands(self), "Options": _options(self, ctx)})


class Commands(typer.Typer):
    """Typer whose commands and groups have such pages."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=GroupPage, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """As Typer's."""
        return super().command(name, cls=CommandPage, **settings)


def _write(formatter: Any, sections: Mapping[str, Rows]) -> None:
    """Options have a width of their own: their names are longer than those of commands."""
    width = max((len(name) for title, rows in sections.items() if title != "Options" for name, _ in rows), default=0)
    for heading, rows in sections.items():
        if rows:
            with formatter.section(in_colour(heading, "green", sys.stdout)):
                formatter.write_dl([(f"{name:<{width if heading != 'Options' else 0}}", text) for name, text in rows])


def _arguments(command: Any, context: Any) -> list[Any]:
    return [each for each in command.get_params(context) if each.param_type_name == "argument"]


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name)


def _described(command: Any, context: Any) -> Rows:
    return [(_name(argument), argument.help or "") for argument in _arguments(command, context)]


def _options(command: Any, context: Any) -> Rows:
    options = [each for each in command.get_params(context) if each.param_type_name != "argument"]
    return [record for record in (option.get_help_record(context) for option in options) if record]


def _commands(group: Any) -> dict[str, Rows]:
    """The commands of a group with what they do, by heading, in the order of the code."""
    rows: dict[str, Rows] = {}
    for name, command in group.commands.items():
        heading = getattr(command, "rich_help_panel", None)
        summary = (command.help or "").split("\n\n", 1)[0].replace("\n", " ")
        rows.setdefault(heading if isinstance(heading, str) else "Commands", []).append((name, summary))
    return rows
