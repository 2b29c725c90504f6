"""The command line. Commands only parse here; what they do is in `nnkit.commands`, imported when they run."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from nnkit import __version__
from nnkit.defaults import FALSE_POSITIVE_RATE
from nnkit.errors import ExitCode, NnkitError
from nnkit.failures import INTERRUPTED, Interrupts, fail, fail_unexpected
from nnkit.recipe.model_formats import FORMAT_OF_SUFFIX

app = typer.Typer(
    name="nnkit",
    help="From a trained network to a verified release for an NPU, from one recipe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
targets_app = typer.Typer(help="The installed targets.", no_args_is_help=True)
package_app = typer.Typer(help="Release packages.", no_args_is_help=True)
app.add_typer(targets_app, name="targets")
app.add_typer(package_app, name="package")
table_app = typer.Typer(help="Calibration tables.", no_args_is_help=True)
app.add_typer(table_app, name="table")


class Metric(Enum):
    """How `evaluate` compares descriptors: by cosine similarity or Euclidean distance."""

    cosine = "cosine"
    l2 = "l2"


class ExecutorName(Enum):
    """Processes of this host, or a Dask cluster."""

    local = "local"
    dask = "dask"


RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe (YAML).")]
TargetOption = Annotated[
    list[str] | None, typer.Option("--target", "-t", metavar="NAME", help="Only this target (repeatable).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Compute every stage anew.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", is_eager=True)]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"nnkit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """From a trained network to a verified release for an NPU, from one recipe."""


@app.command()
def run(  # noqa: PLR0913 - every option of a command is a parameter
    recipe: Annotated[
        list[Path],
        typer.Argument(metavar="RECIPE...", help="The recipe (YAML), or several; or a model and --images."),
    ],
    target: TargetOption = None,
    images: Annotated[
        Path | None, typer.Option("--images", metavar="DIR", help="Of a model without recipe: its pictures.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Output folder.")] = Path("out"),
    no_cache: NoCacheOption = False,
    no_qemu: Annotated[bool, typer.Option("--no-qemu", help="Do not run the artifact in an emulator.")] = False,
    executor: Annotated[
        ExecutorName, typer.Option("--executor", help="Where calibration, evaluation and sweeps run.")
    ] = ExecutorName.local,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Address of a Dask scheduler; without it, `dask` makes a cluster on this host.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="How many processes compute, each on one core; without it, as many as shorten the run.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Builds at a time.")] = 1,
    trust: Annotated[bool, typer.Option("--trust", help="Run the programs that the recipe names.")] = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Build, verify and pack a release from a recipe."""
    from nnkit.commands.run import RunOptions, run_command
    from nnkit.executors import ExecutorChoice

    if any(path.suffix.lower() in FORMAT_OF_SUFFIX for path in recipe) or images is not None:
        from nnkit.commands.init import drafted

        recipe, target = [drafted(path, out, targets=target or [], images=images) for path in recipe], None
    options = RunOptions(
        targets=tuple(target or []),
        out=out,
        cache=not no_cache,
        emulate=not no_qemu,
        json=json,
        verbose=verbose,
        executor=ExecutorChoice(executor.value, workers, scheduler),
        jobs=jobs,
        trust=trust,
    )
    run_command(recipe, options)


@app.command()
def init(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The network: .onnx, or .prototxt for Caffe.")],
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="NAME", help="A target of the recipe (repeatable).")
    ] = None,
    images: Annotated[
        Path | None, typer.Option("--images", metavar="DIR", help="Pictures to calibrate and to verify on.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1x3x224x224", help="An input's sizes, where the model has none."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The recipe.")] = Path("recipe.yaml"),
) -> None:
    """Write a first recipe for a model: what its file says, and proposals with their reasons."""
    from nnkit.commands.init import init_command

    init_command(model, out, targets=target or [], images=images, shapes=shape or [])


@app.command()
def check(recipe: RecipeArgument, json: JsonOption = False) -> None:
    """Validate a recipe and the files it names; change nothing."""
    from nnkit.commands.check import check_command

    check_command(recipe, json=json)


@app.command()
def plan(
    recipe: RecipeArgument,
    target: TargetOption = None,
    no_cache: NoCacheOption = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Dry run: rewrites, placement, formats and memory of what `run` would build."""
    from nnkit.commands.plan import plan_command

    plan_command(recipe, target or [], no_cache=no_cache, json=json, verbose=verbose)


@app.command()
def schema(
    report: Annotated[bool, typer.Option("--report", help="The schema of report.json instead.")] = False,
) -> None:
    """Print the JSON Schema of recipes, for editors."""
    from nnkit.commands.schema import report_schema_command, schema_command

    if report:
        report_schema_command()
    else:
        schema_command()


@app.command()
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


@app.command()
def simulate(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
    output: Annotated[Path, typer.Option("--output", help="Result (.npy).")],
    input: Annotated[
        list[str], typer.Option("--input", help="FILE, or NAME=FILE for several inputs: .npy, .png, .pgm, ...")
    ],
    on: Annotated[str, typer.Option("--on", help="float, program, or one of the target's runners.")] = "program",
    raw: Annotated[bool, typer.Option("--raw", help="Write integers as the hardware has them.")] = False,
    tensor: Annotated[str | None, typer.Option("--tensor", help="Write this tensor instead of the output.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run a build's code wherever the build is from.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a build on one input: in float, in the simulator, or as compiled code."""
    from nnkit.commands.simulate import simulate_command

    simulate_command(build, input, output, on=on, raw=raw, tensor=tensor, json=json, trust=trust)


@app.command()
def bench(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
    on: Annotated[str, typer.Option("--on", metavar="BOARD", help="cortex-m4, cortex-m7, rv32imac, ...")],
    json: JsonOption = False,
) -> None:
    """Run a build on an emulated board: instructions by layer, memory, every value compared."""
    from nnkit.commands.bench import bench_command

    bench_command(build, on=on, json=json)


@app.command()
def validate(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
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


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A build folder, or a tensor file (.npy, .npz).")],
    second: Annotated[Path | None, typer.Argument(metavar="B", help="The same kind as A.")] = None,
    dumps: Annotated[
        Path | None,
        typer.Option("--dumps", "--mapper-quant", metavar="DIR", help="Instead of B: dumps of A's compiler."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compare two builds layer by layer, or two tensor files. Exit code 1 when they differ."""
    from nnkit.commands.compare import compare_command

    compare_command(first, second, json=json, dumps=dumps)


@app.command()
def report(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
    json: JsonOption = False,
) -> None:
    """Write a build's report.html again, from the files in its folder."""
    from nnkit.commands.page import report_command

    report_command(build, json=json)


@app.command()
def view(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
) -> None:
    """Open a build's report.html in the browser."""
    from nnkit.commands.page import view_command

    view_command(build)


@app.command("verify-wk")
def verify_wk(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
    compiled: Annotated[Path, typer.Argument(metavar="FILE.wk", help="What the vendor's compiler made of it.")],
    json: JsonOption = False,
) -> None:
    """Compare a build's numbers with those in a compiled network. Exit code 1 when they differ."""
    from nnkit.commands.verify_wk import verify_wk_command

    verify_wk_command(build, compiled, json=json)


@app.command()
def diagnose(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
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


@app.command()
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


@package_app.command("build")
def package_build(
    build: Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="The archive.")] = None,
    json: JsonOption = False,
) -> None:
    """Pack a verified build into a release archive."""
    from nnkit.commands.package import build_command

    build_command(build, out, json=json)


@package_app.command("verify")
def package_verify(
    package: Annotated[Path, typer.Argument(metavar="FILE", help="A release archive.")],
    key: Annotated[Path | None, typer.Option("--key", help="Public key (PEM) of a detached signature.")] = None,
    proofs: Annotated[bool, typer.Option("--proofs", help="Check again what the package says is proven.")] = False,
    json: JsonOption = False,
) -> None:
    """Check every byte of a release archive."""
    from nnkit.commands.package import verify_command

    verify_command(package, key, proofs=proofs, json=json)


@package_app.command("extract")
def package_extract(
    package: Annotated[Path, typer.Argument(metavar="FILE", help="A release archive.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    json: JsonOption = False,
) -> None:
    """Check every byte of a release archive and unpack it."""
    from nnkit.commands.package import extract_command

    extract_command(package, folder, json=json)


@package_app.command("inspect")
def package_inspect(
    package: Annotated[Path, typer.Argument(metavar="FILE", help="A release archive.")], json: JsonOption = False
) -> None:
    """Show what a release archive says of itself."""
    from nnkit.commands.package import inspect_command

    inspect_command(package, json=json)


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


def main() -> None:
    """Entry point: runs a command and turns every failure into a message and a documented exit code."""
    # The simulator's matrix products are small: BLAS threads only wait for each other, five times slower on two busy
    # cores. To be set before numpy is imported; a value of the user's own stands.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    if not debug:
        import warnings

        warnings.simplefilter("ignore")  # libraries warn in their own words; what matters to users we say ourselves
    interrupts = Interrupts()
    try:
        code = app(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except NnkitError as error:
        if debug:
            raise
        interrupts.check()
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        fail(INTERRUPTED, ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(ExitCode.OK) from None
    except Exception as error:
        if debug:
            raise
        interrupts.check()
        fail_unexpected(error)
    interrupts.check()  # typer makes a plain result of it
    raise SystemExit(code if isinstance(code, int) else ExitCode.OK)
