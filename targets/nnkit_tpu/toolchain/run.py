"""Running the compiler: an argument list, a log file, a time limit; what it dies of becomes a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nnkit.errors import ToolError
from nnkit.external_tool import run_tool
from nnkit_tpu.toolchain.find import Toolchain
from nnkit_tpu.toolchain.log import Failure, read_failure

_LIFT = "what fails in INT8 often compiles in 16 bits: tag the layer `hp`"
_CUT = "no precision mends that: replace the layer, or cut the network before it (`strip_var` with `then: cut`)"

_LONGER = "raise `compiler_timeout_s` of the target's options"


class CompilerError(ToolError):
    """The compiler failed.

    log: all that it printed. advice: what may help beside the log; may be empty. timed_out: it was stopped.
    """

    def __init__(self, reason: str, *, where: str, log_path: Path, log: str, advice: str, timed_out: bool) -> None:
        remedy = f"the log is {log_path}"
        super().__init__(reason, where=where, remedy=f"{advice}; {remedy}" if advice else remedy)
        self.log, self.log_path = log, log_path
        self.advice = advice
        self.timed_out = timed_out

    def at(self, where: str, advice: str) -> CompilerError:
        """The same failure at a place that is known better, with other advice."""
        return CompilerError(
            self.reason,
            where=where,
            log_path=self.log_path,
            log=self.log,
            advice=advice,
            timed_out=self.timed_out,
        )


def run_tpuc_opt(
    toolchain: Toolchain,
    arguments: Sequence[str],
    folder: Path,
    *,
    log_name: str,
    what: str,
    environment: Mapping[str, str] | None = None,
    in_integers: bool = False,
) -> str:
    """Run the compiler in `folder`; its output goes to `folder/log_name` and is returned.

    what: the step in words, for messages. environment: variables beside the toolchain's own. in_integers: whether
    the step makes INT8 of layers, so that a layer it fails at may do better in 16 bits.

    Raises CompilerError with the op, the reason and the log when it fails or takes longer than the toolchain
    allows, ToolError where it cannot be started.
    """
    log_path = folder / log_name
    run = run_tool(
        [str(toolchain.compiler), *arguments],
        folder=folder,
        environment={**toolchain.environment, **(environment or {})},
        timeout_s=toolchain.timeout_s,
        name="the TPU compiler",
        remedy="install it anew: remove that folder, then `nnkit doctor --install tpu`",
    )
    text = run.output + run.errors
    log_path.write_text(text, encoding="utf-8")
    if run.failed:
        failure = read_failure(text) if run.code is not None else None
        ended = f"it {run.ending}" + (" and no message" if run.code is not None else "")
        raise CompilerError(
            f"the TPU compiler failed while {what}: {failure.reason if failure else ended}",
            where=failure.op if failure is not None else "",
            log_path=log_path,
            log=text,
            advice=_LONGER if run.code is None else _advice(failure, in_integers=in_integers),
            timed_out=run.code is None,
        )
    return text


def _advice(failure: Failure | None, *, in_integers: bool) -> str:
    """What to do about an op that is named; in which precision it is, matters only once it has one."""
    if failure is None or not failure.op:
        return ""
    return _LIFT if in_integers else _CUT
