"""Several networks in one bmodel, by the vendor's `model_tool`: the chip's program is stored and loaded once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from nnkit.errors import RecipeError, ToolError
from nnkit.external_tool import run_tool
from nnkit_tpu.model_stamp import without_time
from nnkit_tpu.toolchain import Toolchain

COMBINED = "combined.bmodel"
_NETWORK = re.compile(r"^net \d+: \[(.*)\]", re.M)
_CHIP = re.compile(r"^chip: (\w+)", re.M)
_TIMEOUT_S = 300.0


def networks_of(toolchain: Toolchain, model: Path) -> tuple[str, tuple[str, ...]]:
    """The chip of a bmodel, in lower case, and the names of its networks. Raises ToolError for what is none."""
    told = _tool(toolchain, ["--info", str(model.resolve())], model)
    chip = _CHIP.search(told)
    if chip is None:
        raise ToolError("model_tool names no chip", where=str(model))
    return chip.group(1).lower(), tuple(_NETWORK.findall(told))


def combine(toolchain: Toolchain, model: Path, others: Sequence[Path], into: Path, *, where: str = "") -> list[str]:
    """Write one bmodel of `model` and `others`; the names of its networks, in order.

    where: the place in the recipe. Raises RecipeError for models of another chip and for a name that occurs twice,
    ToolError where the tool fails.
    """
    chip, names = networks_of(toolchain, model)
    all_names = list(names)
    for other in others:
        its_chip, its_names = networks_of(toolchain, other)
        if its_chip != chip:
            raise RecipeError(
                f"{other.name} is for the {its_chip}, this build for the {chip}",
                where=where,
                remedy="build both for one chip",
            )
        twice = [name for name in its_names if name in all_names]
        if twice:
            raise RecipeError(
                f"{other.name} has a network {twice[0]!r} too, and a runtime finds networks by name",
                where=where,
                remedy="give the recipes different names",
            )
        all_names += its_names
    files = [str(path.resolve()) for path in (model, *others)]
    _tool(toolchain, ["--combine", *files, "-o", str(into.resolve())], into)
    into.write_bytes(without_time(into.read_bytes()))
    return all_names


def _tool(toolchain: Toolchain, arguments: Sequence[str], model: Path) -> str:
    tool = toolchain.compiler.parent / "model_tool"
    run = run_tool(
        [str(tool), *arguments], environment=toolchain.environment, timeout_s=_TIMEOUT_S, name="model_tool"
    )
    if run.failed or "fail" in run.errors.lower():
        raise run.error("model_tool", where=str(model), remedy="give files that the TPU compiler wrote")
    return run.output
