"""What one upload and one job may take, and where jobs compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nnkit.executors import THIS_HOST, ExecutorChoice


@dataclass(frozen=True)
class Limits:
    """upload_bytes: of one job, all files together. upload_seconds: for sending them. files: of one job.

    job_seconds: a job that takes longer is ended. job_memory_bytes: one whose processes hold more together is ended;
    None: no limit. jobs_per_user: what arrives, waits, runs and is kept; jobs_per_address: the same of all users who
    send from one address, where a user is whoever brings a new cookie.
    """

    upload_bytes: int = 512 << 20
    upload_seconds: float = 300.0
    files: int = 2_000
    job_seconds: float = 3_600.0
    job_memory_bytes: int | None = None
    jobs_per_user: int = 50
    jobs_per_address: int = 200


@dataclass(frozen=True)
class ServeOptions:
    """tokens: name of each user by token; empty: anybody who reaches the address, each browser for itself.

    slots: jobs at a time. hosts: names under which browsers may ask for this server.
    """

    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    slots: int = 1
    executor: ExecutorChoice = THIS_HOST
    limits: Limits = Limits()
