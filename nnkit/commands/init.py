"""`nnkit init`: a first recipe for a model file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from nnkit.api.drafting import refused, write_draft
from nnkit.errors import UsageError, raise_found, worst
from nnkit.installation import as_called
from nnkit.terminal import flush, print_line


def init_command(
    model: Path, out: Path, *, targets: Sequence[str], images: Path | None, shapes: Sequence[str]
) -> None:
    """Write a commented recipe that runs; where it does not, since the target refuses the network, raise why.

    Raises UsageError where `out` exists already.
    """
    if out.exists() and model.exists() and out.samefile(model):
        reason = "this is the recipe itself, and `nnkit init` writes one for a network"
        raise UsageError(reason, where=str(model), remedy="name the network, as in `nnkit init net.onnx`")
    if out.is_dir():
        raise UsageError("it is a folder", where=str(out), remedy=f"name a file in it: --out {out}/recipe.yaml")
    if out.exists():
        raise UsageError("the file exists already", where=str(out), remedy="name another with --out, or remove it")
    write_draft(model, out, targets=targets, images=images, shapes=shapes)
    print_line(f"{out}: a recipe for {model}")
    if images is None:
        print_line("  it has no calibration images yet: see the comments, or give --images")
    flush(sys.stdout)
    errors = refused(out, images=images is not None)
    raise_found(errors, where=str(out), exit_code=worst(error.exit_code for error in errors))
    print_line(as_called(f"  next  nnkit plan {out}    what would be built, without building"))
    print_line(as_called(f"        nnkit run {out}     the release, in out/"))
