"""CBMC: a bounded model checker of C. It unrolls every loop and decides each check over the bits of all inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fuzz.proofs.eva import Verdict
from nnkit.external_tool import run_tool

COMMAND = "cbmc"
_FLAGS = ("--slice-formula",)  # the checks are CBMC 6's standard ones
_BUILTINS = """\
int nondet_int(void);
static int Frama_C_interval(int low, int high)
{
    const int value = nondet_int();

    __CPROVER_assume(value >= low && value <= high);
    return value;
}
#define Frama_C_show_each_finished(unused) __CPROVER_assert(0, "the end is reached")
"""
_FAILED = re.compile(r"^\[(\S+)\] line (\d+) (.+): FAILURE$", re.MULTILINE)
_COUNTED = re.compile(r"^\*\* (\d+) of (\d+) failed", re.MULTILINE)
_END = "the end is reached"
_TIMEOUT_S = 1800.0


def check(folder: Path, sources: Sequence[str], defined: Sequence[str], *, overflow: bool) -> tuple[Verdict, int]:
    """CBMC's verdict on the harness that Eva takes too, and how many checks it decided.

    overflow: sums and products of signed integers are checked as well; the products take nearly all of the time.
    A program whose loops have no end is never unrolled: that is no verdict. One whose end no input reaches is none
    either, as there every check would hold. Raises ToolError where CBMC cannot be started.
    """
    (folder / "__fc_builtin.h").write_text(_BUILTINS, encoding="utf-8")
    command = [
        COMMAND,
        *_FLAGS,
        *(() if overflow else ("--no-signed-overflow-check",)),
        f"-I{folder}",
        *(f"-D{name}" for name in defined),
        *(str(folder / name) for name in sources),
    ]
    done = run_tool(command, timeout_s=_TIMEOUT_S, folder=folder, name=COMMAND)
    if done.code is None:
        return Verdict((), f"stopped after {done.timeout_s:.0f} s"), 0
    counted = _COUNTED.search(done.output)
    if counted is None:
        said = (done.output + done.errors).strip().splitlines()
        return Verdict((), said[-1] if said else f"exit code {done.code}"), 0
    failed = _FAILED.findall(done.output)
    alarms = tuple(f"{function.split('.')[0]}:{line} {what}" for function, line, what in failed if what != _END)
    reached = any(what == _END for _, _, what in failed)
    return Verdict(alarms, "" if reached else "the end of the program is never reached"), int(counted.group(2)) - 1
