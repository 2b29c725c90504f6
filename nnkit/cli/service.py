"""`nnkit serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnkit.cli.recipes import PANEL, ExecutorName

app = typer.Typer()


@app.command(rich_help_panel=PANEL)
def serve(  # noqa: PLR0913 - every option of a command is a parameter
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="0: any that is free.")] = 8040,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Keeps the jobs; else in the user's data folder.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Lines `NAME TOKEN`; made where there is none."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Jobs at a time.")] = 1,
    executor: Annotated[
        ExecutorName, typer.Option("--executor", help="Where calibration and evaluation run.")
    ] = ExecutorName.local,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Address of a Dask scheduler.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Processes of a job, each on one core.")
    ] = None,
    max_upload_mib: Annotated[
        int, typer.Option("--max-upload-mib", min=1, metavar="N", help="Of one job, all files together.")
    ] = 512,
    upload_seconds: Annotated[
        float, typer.Option("--upload-seconds", min=1.0, metavar="N", help="How long an upload may take.")
    ] = 300.0,
    job_seconds: Annotated[
        float, typer.Option("--job-seconds", min=1.0, metavar="N", help="How long a job may take.")
    ] = 3600.0,
    job_memory_mib: Annotated[
        int | None,
        typer.Option(
            "--job-memory-mib",
            min=1,
            metavar="N",
            help="What all processes of a job may hold together; else three quarters of the machine's, by --jobs.",
        ),
    ] = None,
) -> None:
    """Build for browsers and scripts: a network and pictures in, a release out."""
    from nnkit.commands.serve import ServeArguments, serve_command
    from nnkit.executors import ExecutorChoice

    serve_command(
        ServeArguments(
            host,
            port,
            folder,
            token_file,
            jobs,
            ExecutorChoice(executor.value, workers, scheduler),
            max_upload_mib << 20,
            upload_seconds,
            job_seconds,
            None if job_memory_mib is None else job_memory_mib << 20,
        )
    )
