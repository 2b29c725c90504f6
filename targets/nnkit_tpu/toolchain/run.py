"""Running the compiler: an argument list, a log file, a time limit; what it dies of becomes a message."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnkit.errors import ToolError
from nnkit_tpu.toolchain.find import Toolchain
from nnkit_tpu.toolchain.log import read_failure

DEFAULT_TIMEOUT_S = 900.0


def run_tpuc_opt(
    toolchain: Toolchain,
    arguments: Sequence[str],
    folder: Path,
    *,
    log_name: str,
    what: str,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> str:
    """Run the compiler in `folder`; its output goes to `folder/log_name` and is returned.

    what: the step in words, for messages. environment: variables beside the toolchain's own.

    Raises ToolError with the op, the reason and the log's path when it fails or takes longer than `timeout_s`.
    """
    log_path = folder / log_name
    command = [str(toolchain.compiler), *arguments]
    try:
        with log_path.open("wb") as log:
            done = subprocess.run(
                command,
                cwd=folder,
                env={**toolchain.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"the TPU compiler did not end within {timeout_s:.0f} s while {what}", where=f"log: {log_path}"
        ) from error
    except OSError as error:
        raise ToolError(
            f"the TPU compiler cannot be started: {error.strerror}",
            where=str(toolchain.compiler),
            remedy="install it anew: remove that folder, then `nnkit doctor --install tpu`",
        ) from error
    text = log_path.read_text(encoding="utf-8", errors="replace")
    if done.returncode != 0:
        failure = read_failure(text)
        end = f"signal {signal.Signals(-done.returncode).name}" if done.returncode < 0 else f"code {done.returncode}"
        reason = failure.reason if failure is not None else f"it ended with {end} and no message"
        raise ToolError(
            f"the TPU compiler failed while {what}: {reason}",
            where=failure.op if failure is not None else "",
            remedy=f"the log is {log_path}",
        )
    return text
