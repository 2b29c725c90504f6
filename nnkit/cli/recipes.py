"""Commands on recipes: `run`, `init`, `check`, `plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnkit.cli.help_page import Commands
from nnkit.cli.options import (
    ExecutorOptions,
    JsonOption,
    NoCacheOption,
    RecipeArgument,
    SetOption,
    TargetOption,
    VerboseOption,
    WatchOption,
    output_folder,
    with_options,
)
from nnkit.recipe.model_formats import is_network

if TYPE_CHECKING:
    from nnkit.api.drafting import OfModel
    from nnkit.recipe.settings import Setting

app = Commands()
ImagesOption = Annotated[
    Path | None, typer.Option("--images", metavar="DIR", help="Of a model without recipe: its pictures.")
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=1x3x224x224", help="Of a model: an input's sizes, where it has none."),
]
PANEL = "From a model to a release"


@dataclass(frozen=True)
class BuildOptions:
    """What `run` builds, and where."""

    target: TargetOption = None
    images: ImagesOption = None
    shape: ShapeOption = None
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Output folder.", show_default="out")
    ] = None
    no_cache: NoCacheOption = False
    no_qemu: Annotated[bool, typer.Option("--no-qemu", help="Do not run the artifact in an emulator.")] = False


@dataclass(frozen=True)
class Asked:
    """Which builds of a recipe are looked at, or of a model, and with which values."""

    target: TargetOption = None
    images: ImagesOption = None
    shape: ShapeOption = None
    settings: SetOption = None

    def of_model(self) -> OfModel:
        """What is said of a network without a recipe."""
        from nnkit.api.drafting import OfModel

        return OfModel(self.images, tuple(self.shape or ()))


@dataclass(frozen=True)
class SessionOptions:
    """How many builds run at a time, with which rights, and what is said of them."""

    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Builds at a time.")] = 1
    trust: Annotated[bool, typer.Option("--trust", help="Run the programs that the recipe names.")] = False
    settings: SetOption = None
    watching: WatchOption = False
    json: JsonOption = False
    verbose: VerboseOption = False


@app.command(rich_help_panel=PANEL)
@with_options
def run(
    recipe: Annotated[
        list[Path],
        typer.Argument(metavar="RECIPE...", help="The recipe (YAML), or several; or a model and --images."),
    ],
    build: BuildOptions,
    place: ExecutorOptions,
    session: SessionOptions,
) -> None:
    """Build, verify and pack a release from a recipe."""
    from nnkit.commands.run import RunOptions, run_command

    target, out = build.target, output_folder(build.out)
    if any(is_network(path) for path in recipe) or build.images is not None or build.shape:
        from nnkit.api.drafting import drafted

        shapes = build.shape or []
        recipe = [drafted(path, out, targets=target or [], images=build.images, shapes=shapes) for path in recipe]
        target = None
    options = RunOptions(
        targets=tuple(target or []),
        out=out,
        cache=not build.no_cache,
        emulate=not build.no_qemu,
        json=session.json,
        verbose=session.verbose,
        executor=place.choice(),
        jobs=session.jobs,
        trust=session.trust,
        settings=_settings(session.settings),
    )
    _once_or_watching(recipe[0], lambda: run_command(recipe, options), session.watching)


@app.command(rich_help_panel=PANEL)
def init(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The network: .onnx, .tflite, or .prototxt for Caffe.")
    ],
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="NAME", help="A target of the recipe (repeatable).")
    ] = None,
    images: Annotated[
        Path | None, typer.Option("--images", metavar="DIR", help="Pictures to calibrate and to verify on.")
    ] = None,
    shape: ShapeOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The recipe.")] = Path("recipe.yaml"),
) -> None:
    """Write a first recipe for a model: what its file says, and proposals with their reasons."""
    from nnkit.commands.init import init_command

    init_command(model, out, targets=target or [], images=images, shapes=shape or [])


@app.command(rich_help_panel=PANEL)
@with_options
def check(
    recipe: Annotated[
        list[Path], typer.Argument(metavar="RECIPE...", help="The recipe (YAML), or several; or a model.")
    ],
    asked: Asked,
    fix: Annotated[bool, typer.Option("--fix", help="Correct misspelt words in the recipe first.")] = False,
    watching: WatchOption = False,
    json: JsonOption = False,
) -> None:
    """Validate recipes and the files they name; change nothing."""
    from nnkit.commands.check import check_commands

    values = _settings(asked.settings)

    def action() -> None:
        check_commands(
            recipe,
            targets=asked.target or [],
            given=asked.of_model(),
            settings=values,
            fix=fix,
            json=json,
        )

    _once_or_watching(recipe[0], action, watching)


@app.command(rich_help_panel=PANEL)
@with_options
def plan(
    recipe: RecipeArgument,
    asked: Asked,
    watching: WatchOption = False,
    no_cache: NoCacheOption = False,
    trust: Annotated[bool, typer.Option("--trust", help="Run the layers in Python that the recipe names.")] = False,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Dry run: rewrites, placement, formats and memory of what `run` would build."""
    from nnkit.commands.plan import plan_command

    values = _settings(asked.settings)

    def action() -> None:
        plan_command(
            recipe,
            asked.target or [],
            given=asked.of_model(),
            settings=values,
            no_cache=no_cache,
            trust=trust,
            json=json,
            verbose=verbose,
        )

    _once_or_watching(recipe, action, watching)


def _settings(texts: list[str] | None) -> tuple[Setting, ...]:
    """What `--set` says, with chips as builds of their targets."""
    from nnkit.api.naming import with_chips
    from nnkit.recipe.settings import parse_settings

    return with_chips(parse_settings(texts)) if texts else ()


def _once_or_watching(recipe: Path, action: Callable[[], None], watching: bool) -> None:
    if not watching:
        action()
        return
    from nnkit.commands.watch import watch

    watch(recipe, action)
