"""Arguments and options that several commands have, and options kept together as the fields of one class."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from nnkit.errors import UsageError

if TYPE_CHECKING:
    from nnkit.executors import ExecutorChoice

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe (YAML), or a model.")]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="Only this target: TARGET, TARGET:CHIP or CHIP (`nnkit targets` lists them).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]
NoCacheOption = Annotated[bool, typer.Option("--no-cache", help="Compute every stage anew.")]
TrustOption = Annotated[bool, typer.Option("--trust", help="Run a build's code wherever the build is from.")]
BuildArgument = Annotated[Path, typer.Argument(metavar="BUILD", help="A build folder: out/<name>/<target>.")]
PackageArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A release archive.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A value of the recipe: verify.gates.cosine=0.9 (repeatable)."),
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Again whenever the recipe or its model changes.")]


class ExecutorName(Enum):
    """Processes of this host, or a Dask cluster."""

    local = "local"
    dask = "dask"


@dataclass(frozen=True)
class ExecutorOptions:
    """Where a command computes."""

    executor: Annotated[
        ExecutorName, typer.Option("--executor", help="Where calibration, evaluation and sweeps run.")
    ] = ExecutorName.local
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Address of a Dask scheduler; without it, `dask` makes a cluster on this host.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="How many processes compute, each on one core; without it, as many as shorten the run.",
        ),
    ] = None

    def choice(self) -> ExecutorChoice:
        """The executor that the options ask for."""
        from nnkit.executors import ExecutorChoice

        return ExecutorChoice(self.executor.value, self.workers, self.scheduler)


def output_folder(named: Path | None) -> Path:
    """The folder that `--out` names, else `out`.

    Raises UsageError where `out` is a link and was not named: it may have come with somebody else's recipe.
    """
    folder = named or Path("out")
    if named is None and folder.is_symlink():
        raise UsageError(
            f"is a link to {os.readlink(folder)}, which may have come with the recipe",
            where=str(folder),
            remedy="say where the build goes: --out DIR (--out out, where that link is yours)",
        )
    return folder


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of a class of options are replaced by the fields of that class.

    Typer reads a command's options from its parameters, one each. A command that has many takes them in dataclasses,
    such as ExecutorOptions, and this decorator shows Typer their fields in place of the classes: in the order of the
    parameters, each field with its annotation and default.
    """
    hints = get_type_hints(command, include_extras=True)
    shown: list[inspect.Parameter] = []
    classes: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if hasattr(hint, "__dataclass_fields__"):
            classes[parameter.name] = hint
            shown += _parameters(hint)
        else:
            shown.append(parameter.replace(annotation=hint))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, kind in classes.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run


def _parameters(kind: type) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
