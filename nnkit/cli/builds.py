"""Commands on what a run left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnkit.cli.help_page import Commands
from nnkit.cli.options import BuildArgument, JsonOption, TrustOption

app = Commands()
PANEL = "What a run left"


@app.command(rich_help_panel=PANEL)
def report(
    build: BuildArgument,
    json: JsonOption = False,
) -> None:
    """Write a build's report.html again, from the files in its folder."""
    from nnkit.commands.page import report_command

    report_command(build, json=json)


@app.command(rich_help_panel=PANEL)
def view(
    build: BuildArgument,
) -> None:
    """Open a build's report.html in the browser."""
    from nnkit.commands.page import view_command

    view_command(build)


@app.command(rich_help_panel=PANEL)
def simulate(
    build: BuildArgument,
    output: Annotated[Path, typer.Option("--output", help="Result (.npy).")],
    input: Annotated[
        list[str], typer.Option("--input", help="FILE, or NAME=FILE for several inputs: .npy, .png, .pgm, ...")
    ],
    on: Annotated[str, typer.Option("--on", help="float, program, or one of the target's runners.")] = "program",
    raw: Annotated[bool, typer.Option("--raw", help="Write integers as the hardware has them.")] = False,
    tensor: Annotated[str | None, typer.Option("--tensor", help="Write this tensor instead of the output.")] = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Run a build on one input: in float, in the simulator, or as compiled code."""
    from nnkit.commands.simulate import simulate_command

    simulate_command(build, input, output, on=on, raw=raw, tensor=tensor, json=json, trust=trust)


@app.command(rich_help_panel=PANEL)
def bench(
    build: BuildArgument,
    on: Annotated[str, typer.Option("--on", metavar="BOARD", help="cortex-m4, cortex-m7, rv32imac, ...")],
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Run a build on an emulated board: instructions by layer, memory, every value compared."""
    from nnkit.commands.bench import bench_command

    bench_command(build, on=on, json=json, trust=trust)


@app.command(rich_help_panel=PANEL)
def validate(
    build: BuildArgument,
    port: Annotated[str, typer.Option("--port", metavar="DEVICE", help="The serial port, such as /dev/ttyACM0.")],
    baud: Annotated[int, typer.Option("--baud", min=1, metavar="N", help="Bits per second.")] = 115_200,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long the device may be silent.")
    ] = 60.0,
    json: JsonOption = False,
) -> None:
    """Run a build on a board at a serial port, and compare every layer."""
    from nnkit.boards.serial_line import SerialPort
    from nnkit.commands.bench import validate_command

    validate_command(build, SerialPort(port, baud, timeout), json=json)


@app.command(rich_help_panel=PANEL)
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A build folder, or a tensor file (.npy, .npz).")],
    second: Annotated[Path | None, typer.Argument(metavar="[B]", help="The same kind as A.")] = None,
    dumps: Annotated[
        Path | None,
        typer.Option("--dumps", "--mapper-quant", metavar="DIR", help="Instead of B: dumps of A's compiler."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare two builds layer by layer, or two tensor files. Exit code 1 when they differ."""
    from nnkit.commands.compare import compare_command

    compare_command(first, second, json=json, dumps=dumps)


@app.command(rich_help_panel=PANEL)
def diagnose(
    build: BuildArgument,
    images: Annotated[
        list[str] | None,
        typer.Option("--images", metavar="GLOB", help="Inputs to measure on, instead of those kept; or NAME=GLOB."),
    ] = None,
    calibration: Annotated[
        list[str] | None,
        typer.Option("--calibration", metavar="GLOB", help="Calibration inputs, for the gap; or NAME=GLOB."),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Inputs of each, at most.")] = 8,
    json: JsonOption = False,
) -> None:
    """Show where a build loses accuracy: each layer by itself, and with all before it."""
    from nnkit.commands.diagnose import diagnose_command

    diagnose_command(build, images=images or [], calibration=calibration or [], count=count, json=json)


@app.command("verify-wk", rich_help_panel=PANEL)
def verify_wk(
    build: BuildArgument,
    compiled: Annotated[Path, typer.Argument(metavar="FILE.wk", help="What the vendor's compiler made of it.")],
    json: JsonOption = False,
) -> None:
    """Compare a build's numbers with those in a compiled network. Exit code 1 when they differ."""
    from nnkit.commands.verify_wk import verify_wk_command

    verify_wk_command(build, compiled, json=json)
