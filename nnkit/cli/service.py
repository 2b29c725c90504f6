"""`nnkit serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnkit.cli.help_page import Commands
from nnkit.cli.options import ExecutorOptions, with_options
from nnkit.cli.recipes import PANEL

app = Commands()


@dataclass(frozen=True)
class ServerOptions:
    """Where the service listens, for whom, and where it keeps what it was given."""

    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="0: any that is free.")] = 8040
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Keeps the jobs; else in the user's data folder.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Lines `NAME TOKEN`; made where there is none."),
    ] = None


@dataclass(frozen=True)
class JobOptions:
    """What jobs may take, of time and of memory."""

    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Jobs at a time.")] = 1
    max_upload_mib: Annotated[
        int, typer.Option("--max-upload-mib", min=1, metavar="N", help="Of one job, all files together.")
    ] = 512
    upload_seconds: Annotated[
        float, typer.Option("--upload-seconds", min=1.0, metavar="N", help="How long an upload may take.")
    ] = 300.0
    job_seconds: Annotated[
        float, typer.Option("--job-seconds", min=1.0, metavar="N", help="How long a job may take.")
    ] = 3600.0
    job_memory_mib: Annotated[
        int | None,
        typer.Option(
            "--job-memory-mib",
            min=1,
            metavar="N",
            help="What all processes of a job may hold together; else three quarters of the machine's, by --jobs.",
        ),
    ] = None


@app.command(rich_help_panel=PANEL)
@with_options
def serve(server: ServerOptions, limits: JobOptions, place: ExecutorOptions) -> None:
    """Build for browsers and scripts: a network and pictures in, a release out."""
    from nnkit.commands.serve import ServeArguments, serve_command

    memory_mib = limits.job_memory_mib
    serve_command(
        ServeArguments(
            server.host,
            server.port,
            server.folder,
            server.token_file,
            limits.jobs,
            place.choice(),
            limits.max_upload_mib << 20,
            limits.upload_seconds,
            limits.job_seconds,
            None if memory_mib is None else memory_mib << 20,
        )
    )
