"""`nnkit serve`: builds for a team's browsers and scripts."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.errors import UsageError
from nnkit.executors import ExecutorChoice, check_choice
from nnkit.installation import install_command
from nnkit.terminal import flush, print_line

if TYPE_CHECKING:
    import uvicorn

_NEEDED = ("fastapi", "uvicorn", "python_multipart", "swagger_ui_bundle")
_CONNECTIONS = 100


@dataclass(frozen=True)
class ServeArguments:
    """The switches of `nnkit serve`. folder: None: in the user's data folder. tokens: a file of tokens.

    job_memory_bytes: None: a share of the machine's.
    """

    host: str
    port: int
    folder: Path | None
    tokens: Path | None
    jobs: int
    executor: ExecutorChoice
    max_upload_bytes: int
    upload_seconds: float
    job_seconds: float
    job_memory_bytes: int | None


def serve_command(given: ServeArguments) -> None:
    """Serve until the process is asked to end.

    Raises UsageError: an address beyond this host without tokens, one that is taken, the extra is not installed.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(f"{missing[0]} is not installed", where="nnkit serve", remedy=install_command("serve"))
    check_choice(given.executor)
    local = is_loopback(given.host)
    if not local and given.tokens is None:
        raise UsageError(
            f"{given.host} can be reached by others, who could build here without a word",
            where="--host",
            remedy="add --token-file FILE (it is made where there is none), or leave --host out",
        )
    import uvicorn

    from nnkit.serve.app import make_app
    from nnkit.serve.limits import Limits, ServeOptions
    from nnkit.serve.memory import default_limit_bytes
    from nnkit.serve.processes import can_be_seen
    from nnkit.serve.store import only_server
    from nnkit.serve.users import read_tokens

    if given.job_memory_bytes is not None and not can_be_seen():
        raise UsageError(
            "this system does not report the memory of processes", where="--job-memory-mib", remedy="leave it out"
        )
    limits = Limits(
        given.max_upload_bytes,
        given.upload_seconds,
        job_seconds=given.job_seconds,
        job_memory_bytes=given.job_memory_bytes or default_limit_bytes(given.jobs),
    )
    folder = given.folder or data_folder()
    tokens = {} if given.tokens is None else read_tokens(given.tokens)
    hosts = ("127.0.0.1", "localhost", "::1", given.host) if local else ()
    options = ServeOptions(folder.absolute(), tokens, hosts, given.jobs, given.executor, limits)
    with only_server(options.folder), _bound(given.host, given.port) as listening:
        app = make_app(options)
        port = listening.getsockname()[1]
        shown = f"[{given.host}]" if ":" in given.host else given.host
        print_line(f"nnkit serves http://{shown}:{port} (jobs in {folder})")
        if given.tokens is not None:
            print_line(f"tokens: {given.tokens}")
        flush(sys.stdout)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=bool(tokens),  # without tokens what counts is the address, which a sender could forge
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=5,
        )
        _run(uvicorn.Server(config), listening)


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    """Until SIGINT or SIGTERM, which are no failure here; a second one does not wait for answers under way."""

    def end(number: int, frame: object) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Whether only this host can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def data_folder() -> Path:
    """`nnkit/serve` in the user's data folder (`XDG_DATA_HOME`, `~/.local/share`)."""
    xdg = os.environ.get("XDG_DATA_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".local/share"
    return base / "nnkit" / "serve"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_CONNECTIONS)  # who asks as soon as the address is said waits, and is not refused
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{host}:{port} cannot be listened on: {reason}",
            where="--port",
            remedy="choose another --port, or 0 for any",
        ) from error
    return listening
