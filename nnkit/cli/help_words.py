"""`nnkit help [COMMAND]`: what `--help` says, for those who ask in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from nnkit.terminal import print_help


def help_command(context: typer.Context, words: Sequence[str]) -> None:
    """Print the help of the command that `words` name, of all commands without any. Raises UsageError."""
    command: Any = context.find_root()
    for word in words:
        known = getattr(command.command, "commands", {})
        if word not in known:
            from nnkit.cli.usage_errors import unknown_command

            raise unknown_command(word, list(known))
        command = type(command)(known[word], info_name=word, parent=command)
    print_help(command.get_help())
