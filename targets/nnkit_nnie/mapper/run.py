"""Running the vendor's mapper: found, watched, its log turned into progress and errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnkit.children.search import found_program
from nnkit.errors import RecipeError, ToolError, UserFileError
from nnkit.external_tool import ToolRun, run_tool
from nnkit.trust import config_folder, user_settings
from nnkit_nnie.chips import CHIPS, Chip
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.wk.header import WkFile, check_wk

STAGES = (
    "net parsing",
    "prev optimizing",
    "net quantalizing",
    "optimizing",
    "mem allocation",
    "instruction generating",
    "parameter compressing",
    "compress index",
    "binary code",
    "quant files",
)
"""The mapper's stages in order, in its own words."""

_LOG_FILE = "mapper.log"
_ERROR_FILE = "mapper_error.log"


@dataclass(frozen=True)
class KnownMessage:
    """A message of the mapper: its pattern, whether it ends the build, and the remedy. Group `layer`: its place."""

    pattern: re.Pattern[str]
    fatal: bool
    remedy: str


KNOWN_MESSAGES = (
    KnownMessage(
        re.compile(r"Permute can only support \(0,1,2,3\) -> \(0,2,3,1\) order", re.IGNORECASE),
        True,
        "use that order, or run the layer on the CPU",
    ),
    KnownMessage(
        re.compile(r"arch_version\(\d+\) of input model should be \d+", re.IGNORECASE),
        True,
        "the mapper is for the other generation of the NNIE: set mapper.path, or the right chip",
    ),
    KnownMessage(
        re.compile(r"data containing only zeros; set max value to 1e-6", re.IGNORECASE),
        False,
        "a layer's input or weights are all zero: check the calibration images and their normalisation",
    ),
    KnownMessage(
        re.compile(r"layer\[(?P<layer>[^\]]*)\] value\[[^\]]*\] is too small", re.IGNORECASE),
        False,
        "the layer's values are nearly zero: check the normalisation, or fold a scale into the weights",
    ),
)
_ERROR = re.compile(r"^\W*(error|fatal)\b|\[\s*(error|fatal)\s*\]", re.IGNORECASE)
_SUSPECT = re.compile(r"\b(error|fail(ed|ure)?|not support(ed)?|invalid|can ?not|unknown)\b", re.IGNORECASE)
_PLACE = re.compile(r"layer\s*[\[(:'\" ]\s*(?P<layer>[A-Za-z0-9_./:-]+)", re.IGNORECASE)


@dataclass(frozen=True)
class MapperRun:
    """What a successful run left. warnings: what its log says beside. wk: the checked network."""

    program: str
    wk_path: Path
    wk: WkFile
    warnings: tuple[str, ...]
    stages: tuple[str, ...]


def find_mapper(options: NnieOptions) -> str | None:
    """Path of the mapper for the options' chip, or None.

    Raises UserFileError where what recipe or configuration name is no program, RecipeError where it is the other
    generation's.
    """
    written, chip = options.mapper.path, CHIPS[options.chip]
    if written is None:
        configured = user_settings().programs.get(chip.mapper)
        if configured is not None and not os.access(configured, os.X_OK):
            raise UserFileError(
                "the mapper that the configuration names is no program",
                where=str(configured),
                remedy=f"correct `programs: {{{chip.mapper}: ...}}` in {config_folder() / 'config.yaml'}",
            )
        return found_program(chip.mapper) if configured is None else str(configured)
    path = written.existing_file("the mapper")
    if not os.access(path, os.X_OK):
        raise UserFileError(
            f"the mapper '{written.written}' is not executable", where=written.where, remedy=f"chmod +x {path}"
        )
    other = next((each for each in CHIPS.values() if each.mapper == path.name and each.mapper != chip.mapper), None)
    if other is not None:
        raise RecipeError(
            f"{path.name} compiles for NNIE {other.generation}, but {chip.title} has NNIE {chip.generation}: "
            "the board would not load the network",
            where=written.where,
            remedy=f"name {chip.mapper}, or set `chip` to one of NNIE {other.generation} ({_chips(other)})",
        )
    return str(path.absolute())


def _chips(like: Chip) -> str:
    return ", ".join(name for name, chip in CHIPS.items() if chip.generation == like.generation)


def no_mapper(chip: Chip) -> str:
    """Why nothing was compiled, for reports."""
    return f"never compiled: the vendor's {chip.mapper} is not on PATH, and not among your `programs`"


def run_mapper(
    program: str,
    folder: Path,
    cfg: str,
    instruction_name: str,
    segments: tuple[int, int],
    timeout_s: float,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> MapperRun:
    """Compile `folder/cfg`; the log is kept as `mapper.log`, and everything else as the mapper leaves it.

    segments: (run by the NNIE, in all), for the check of the result.

    Raises ToolError: it does not start, crashes, hangs, says an error, or leaves no sound `.wk`.
    """
    run, stages = _watched(program, folder, cfg, timeout_s, on_stage)
    lines = _lines(run)
    wk_path = folder / f"{instruction_name}.wk"
    fatal, warnings = _judged(lines, _error_file(folder), failed=not wk_path.is_file())
    if fatal is not None:
        raise fatal
    if not wk_path.is_file():
        raise ToolError(
            run.with_tail(f"the mapper ended without an error and left no {wk_path.name}"),
            where=Path(program).name,
            remedy="run it by hand (compile.sh) and look at its log",
        )
    return MapperRun(Path(program).name, wk_path, check_wk(wk_path, *segments), warnings, stages)


def _watched(
    program: str, folder: Path, cfg: str, timeout_s: float, on_stage: Callable[[str], None]
) -> tuple[ToolRun, tuple[str, ...]]:
    """The run, and the stages seen. Raises ToolError where it failed."""
    name = Path(program).name
    stages: list[str] = []
    log_path = folder / _LOG_FILE

    with log_path.open("w", encoding="utf-8") as log:

        def follow(line: str) -> None:
            log.write(line + "\n")
            stage = stage_of(line, stages[-1] if stages else None)
            if stage is not None:
                stages.append(stage)
                on_stage(stage)

        run = run_tool(
            [program, cfg],
            folder=folder,
            timeout_s=timeout_s,
            on_line=follow,
            name="the mapper",
            remedy="check with `file` and `ldd` that it is a program for this kind of computer and that no library "
            "is missing; with mapper.run: false the build goes on without it",
        )
    if not run.failed:
        return run, tuple(stages)
    remedy = "above is the end of its log; docs/nnie_limits.md has the limits of layers"
    if run.code is None:
        remedy = "raise mapper.timeout_s; above is the end of its log"
    elif run.code < 0:
        remedy = "try with fewer calibration images (image_count), or report it to the vendor"
    else:
        fatal, _ = _judged(_lines(run), _error_file(folder), failed=True)
        if fatal is not None:
            raise fatal
    at = f" in the stage {stages[-1]!r}" if stages else ""
    raise ToolError(run.with_tail(f"the mapper {run.ending}{at}"), where=name, remedy=remedy)


def _lines(run: ToolRun) -> list[str]:
    return [line.rstrip() for line in run.output.split("\n")]


def stage_of(line: str, before: str | None) -> str | None:
    """The stage that a line of the log announces, if it is not the one before."""
    text = line.lower()
    for stage in sorted(STAGES, key=len, reverse=True):
        if stage in text:
            return stage if stage != before else None
    return None


def _error_file(folder: Path) -> list[str]:
    path = folder / _ERROR_FILE
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _judged(
    log: Sequence[str], error_file: Sequence[str], *, failed: bool
) -> tuple[ToolError | None, tuple[str, ...]]:
    """The first fatal message as an error, and the warnings, each once.

    A line that only sounds like an error (`_SUSPECT`) is one in the mapper's own file of errors, and in its log where
    it failed.
    """
    warnings: dict[str, None] = {}
    lines = [(line, failed) for line in log] + [(line, True) for line in error_file]
    for line, suspected in lines:
        message = next((known for known in KNOWN_MESSAGES if known.pattern.search(line)), None)
        if message is not None and not message.fatal:
            warnings[f"{line.strip()} ({message.remedy})"] = None
        elif message is not None:
            return ToolError(line.strip(), where=_place(line), remedy=message.remedy), tuple(warnings)
        elif _ERROR.search(line) or (suspected and _SUSPECT.search(line)):
            return ToolError(line.strip(), where=_place(line), remedy=_GENERAL_REMEDY), tuple(warnings)
    return None, tuple(warnings)


_GENERAL_REMEDY = "look at mapper.log in the artifact; docs/nnie_limits.md has the limits of layers"


def _place(line: str) -> str:
    match = _PLACE.search(line)
    return f"mapper, layer {match.group('layer')}" if match else "mapper"
