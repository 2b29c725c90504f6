"""Every error has a code that can be looked up: `nnkit explain CODE`, and docs/error_codes.md, made of this file.

The first digit is that of the exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorCode:
    """title: what happened. meaning: how it comes about. steps: what to do, in the order in which to try it."""

    code: str
    title: str
    meaning: str
    steps: tuple[str, ...]


_ALL = (
    ErrorCode(
        "NK100",
        "Several things are wrong",
        "`nnkit check` reports all that it finds at once; each entry has its own place and remedy.",
        ("Mend them from the top: a later one may follow from an earlier one.",),
    ),
    ErrorCode(
        "NK101",
        "A gate failed, or the artifact computes something else",
        "The build was made, but a limit under `verify.gates` does not hold, a runner of `verify.require` could not "
        "run, or a value of the compiled artifact differs from the simulator's: the build is kept in "
        "`<target>.failed`. Or a release package is not what its manifest or its signature says.",
        (
            "Open its report.html: `nnkit view out/<name>/<target>.failed`; what to do next is ranked there.",
            "`nnkit diagnose BUILD` shows the layers that lose accuracy; docs/accuracy.md has the order of remedies.",
            "Where the float network fails the gate itself, look at preprocessing and labels first.",
            "Of a package: fetch it again, or build it anew; `nnkit package verify FILE` checks every byte.",
        ),
    ),
    ErrorCode(
        "NK102",
        "Of several builds some failed",
        "Of several recipes or targets some did not pass; each has its own reason above. The others are done.",
        ("Run one alone: `nnkit run RECIPE --target NAME`.",),
    ),
    ErrorCode(
        "NK201",
        "The recipe asks for what cannot be",
        "The recipe is well formed, but something it names is not there or does not fit: a file, a glob, an input, a "
        "correction that the target does not offer.",
        ("The message names the line (file:line:column) and what would be right.", "`nnkit check RECIPE` lists all."),
    ),
    ErrorCode(
        "NK202",
        "The recipe is not valid",
        "YAML syntax, an unknown key, a value of the wrong kind or outside its bounds.",
        (
            "`nnkit check RECIPE --fix` corrects misspelt words itself.",
            "docs/recipe_reference.md has every key; `nnkit schema` gives editors the same.",
        ),
    ),
    ErrorCode(
        "NK203",
        "A tag matches no layer",
        "A glob under `tags.hp` or `tags.cpu` matches none of the imported network's layer names.",
        (
            "Take one of the names that the message offers.",
            "`nnkit plan RECIPE` lists all layers; letter case counts.",
        ),
    ),
    ErrorCode(
        "NK211",
        "The command line is wrong",
        "An option that there is not, a value that it does not take, or a name that does not exist.",
        ("`nnkit help COMMAND` explains the command.",),
    ),
    ErrorCode(
        "NK221",
        "A file or folder cannot be used",
        "It is not there, empty, damaged, of another kind than its name says, or may not be read or written.",
        ("Check the path in the message; relative paths in a recipe are relative to the recipe.",),
    ),
    ErrorCode(
        "NK222",
        "This machine ran out of memory",
        "The network or its pictures need more memory than there is.",
        ("Close other programs.", "Use fewer workers: `--workers 1`.", "Use a machine with more memory."),
    ),
    ErrorCode(
        "NK223",
        "The result cannot be written to standard output",
        "It goes to a file on a full disk, or to a device that takes nothing. What the command made is kept.",
        ("Send the output to a place with room, and run the same command again.",),
    ),
    ErrorCode(
        "NK224",
        "The model's data files are missing",
        "The ONNX file keeps its weights in files beside it (external data), as exports of large networks do.",
        ("Put the named files where the export left them; the service takes them as files of the same upload.",),
    ),
    ErrorCode(
        "NK301",
        "The model cannot be read or deployed",
        "The model file is broken, leaves sizes open, or has layers that the target cannot run.",
        (
            "Export it again, with batch 1 and fixed sizes; `nnkit.torch.export` does that from PyTorch.",
            "docs/operators.md says which operators each target takes.",
            "Cut what stands at the end: the message has the `restructure` line where that helps.",
        ),
    ),
    ErrorCode(
        "NK302",
        "A layer cannot be taken",
        "One layer has attributes or a place in the network that the target or a rewrite cannot take.",
        (
            "Change the layer, or cut the network before it.",
            "`tags: {cpu: [LAYER]}` leaves it to the CPU, where there is one.",
        ),
    ),
    ErrorCode(
        "NK303",
        "Layers cannot be written in the vendor's format",
        "The vendor's tool reads a format that has no such layers.",
        ("Restructure these layers, or write them as custom layers that run on the CPU.",),
    ),
    ErrorCode(
        "NK304",
        "The target cannot run layers of the network",
        "They are listed, each with its reason; the message says which recipe lines were tried and would do, and "
        "which targets take the network.",
        (
            "Paste one of the recipe lines of the message.",
            "`nnkit targets show NAME` lists the operators that a target takes.",
        ),
    ),
    ErrorCode(
        "NK401",
        "It does not fit the memory",
        "What must be live at once in the worst step is more than a memory region holds, or the weights exceed their "
        "budget.",
        (
            "The message says what would fit: fewer bits, a smaller input, or how much memory is needed.",
            "`nnkit plan RECIPE` shows the memory of each step without building.",
        ),
    ),
    ErrorCode(
        "NK501",
        "A tool is missing or failed",
        "A compiler, an emulator, a vendor's toolchain, or a plugin that does not load.",
        ("`nnkit doctor` says what is found and how to get the rest.",),
    ),
    ErrorCode(
        "NK503",
        "A target's plugin failed",
        "The mistake is in the code of a target that was installed beside nnkit, not in the recipe.",
        ("Report it to who provides the plugin, with the output of --debug.", "Build for another target meanwhile."),
    ),
    ErrorCode(
        "NK601",
        "Built and packed, but unproven",
        "No runner could execute the artifact on this machine, so that nothing has compared it with the simulator.",
        (
            "`nnkit doctor` says what is missing; then run again.",
            "`verify: {require: [host]}` makes such a build a failure.",
        ),
    ),
    ErrorCode(
        "NK700",
        "A bug in nnkit",
        "Something that must hold does not. It is not the recipe's fault.",
        ("Run the same command with --debug and report the traceback.",),
    ),
    ErrorCode(
        "NK130",
        "Interrupted",
        "Ctrl-C, or the process was asked to end. The last good build is unchanged, and what was finished is cached.",
        ("The same command goes on from there.",),
    ),
)

ERROR_CODES: Mapping[str, ErrorCode] = {each.code: each for each in _ALL}


def page() -> str:
    """docs/error_codes.md."""
    lines = [
        "# Error codes",
        "",
        "This page is generated: `python -m nnkit.error_codes > docs/error_codes.md`. Every error ends with its",
        "code, and `nnkit explain CODE` prints what stands here. Exit codes are on",
        "[a page of their own](exit_codes.md); the first digit is the same.",
    ]
    for each in _ALL:
        lines += ["", f"## {each.code}", "", f"**{each.title}.** {each.meaning}", ""]
        lines += [f"- {step}" for step in each.steps]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
