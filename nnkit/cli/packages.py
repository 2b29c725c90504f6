"""Commands on release packages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnkit.cli.help_page import Commands
from nnkit.cli.options import BuildArgument, JsonOption, PackageArgument

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Public key (PEM) that must have signed the package."),
]

app = Commands(help="Pack a build again; check, unpack or show a release archive.", no_args_is_help=True)


@app.command("build")
def package_build(
    build: BuildArgument,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="The archive.")] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Private key (PEM) that signs the package.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Pack a verified build into a release archive."""
    from nnkit.commands.package import build_command

    build_command(build, out, key, json=json)


@app.command("verify")
def package_verify(
    package: PackageArgument,
    key: KeyOption = None,
    proofs: Annotated[bool, typer.Option("--proofs", help="Check again what the package says is proven.")] = False,
    json: JsonOption = False,
) -> None:
    """Check every byte of a release archive."""
    from nnkit.commands.package import verify_command

    verify_command(package, key, proofs=proofs, json=json)


@app.command("extract")
def package_extract(
    package: PackageArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Check every byte of a release archive and unpack it."""
    from nnkit.commands.package import extract_command

    extract_command(package, folder, key, json=json)


@app.command("inspect")
def package_inspect(package: PackageArgument, key: KeyOption = None, json: JsonOption = False) -> None:
    """Show what a release archive says of itself."""
    from nnkit.commands.package import inspect_command

    inspect_command(package, key, json=json)
