"""The command line. Commands only parse here, a group a file; what they do is in `nnkit.commands`, imported when they
run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from nnkit import __version__
from nnkit.children.search import settle
from nnkit.cli import builds, installation, packages, recipes, service, tables
from nnkit.cli.help_page import Commands
from nnkit.cli.usage_errors import is_usage_error, usage_error
from nnkit.errors import ExitCode, NnkitError
from nnkit.failures import INTERRUPTED, Interrupts, fail, fail_unexpected, make_debug_output_visible
from nnkit.terminal import flush, open_closed_outputs, print_line

_WORDS = """From a trained network to a verified release for an NPU, from one recipe.

With a model file and pictures: `nnkit init net.onnx --images pictures` writes a first recipe, `nnkit run recipe.yaml`
builds it.
"""

app = Commands(
    name="nnkit",
    help=_WORDS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (recipes, service, builds):
    app.add_typer(group.app)
app.add_typer(packages.app, name="package", rich_help_panel=builds.PANEL)
for group in (installation, tables):
    app.add_typer(group.app)

DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", is_eager=True)]


def _version(value: bool) -> None:
    if value:
        print_line(f"nnkit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """What all commands have."""


def _program(arguments: Sequence[str]) -> str | None:
    """How usage names the command; None: as it was started. Completion is of `nnkit`, whatever started it."""
    completes = any(argument.endswith("-completion") for argument in arguments)
    return None if completes else os.environ.get("NNKIT_CALLED_AS")


def main() -> None:
    """Entry point: runs a command and turns every failure into a message and a documented exit code."""
    settle()
    # The simulator's matrix products are small: BLAS threads only wait for each other, five times slower on two busy
    # cores. To be set before numpy is imported; a value of the user's own stands.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # nothing of a network leaves this machine
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    open_closed_outputs()
    if debug:
        make_debug_output_visible()
    else:
        import warnings

        warnings.simplefilter("ignore")  # libraries warn in their own words; what matters to users we say ourselves
    interrupts = Interrupts()
    try:
        code = app(args=arguments, standalone_mode=False, prog_name=_program(arguments))
        flush(sys.stdout)
    except NnkitError as error:
        if debug:
            raise
        interrupts.check()
        fail(str(error), error.exit_code, error.code)
    except KeyboardInterrupt:
        fail(INTERRUPTED, ExitCode.INTERRUPTED, "NK130")
    except BrokenPipeError:  # of a page of help, which Typer writes
        code = ExitCode.OK
        flush(sys.stdout)
    except Exception as error:
        if debug:
            raise
        interrupts.check()
        if is_usage_error(error):
            refused = usage_error(error)
            fail(str(refused), refused.exit_code, refused.code)
        fail_unexpected(error)
    interrupts.check()  # typer makes a plain result of it
    raise SystemExit(code if isinstance(code, int) else ExitCode.OK)
