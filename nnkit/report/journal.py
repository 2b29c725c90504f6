"""The journal of a build that runs elsewhere: a line of JSON for each stage as it begins and as it ends."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

StageState: TypeAlias = Literal["running", "done", "cached", "failed"]


@dataclass(frozen=True)
class StageEvent:
    """One stage. state: `cached` is done without computing. detail: what the command line says beside the time."""

    stage: str
    state: StageState
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class Journal:
    """A file that grows; whoever sees it may read along."""

    path: Path

    def add(self, event: StageEvent) -> None:
        """Append; a journal that cannot be written is no reason to stop a build."""
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(event)) + "\n")

    def events(self) -> list[StageEvent]:
        """What is written so far, each stage once, as it is now; empty where nothing is there.

        A line that a full disk cut short is left out.
        """
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]  # a line in the making has no end yet
        except (OSError, UnicodeDecodeError):
            return []
        events: list[StageEvent] = []
        for line in lines:
            with suppress(ValueError, TypeError):
                events.append(StageEvent(**json.loads(line)))
        ended: list[StageEvent] = []
        for event in events:
            if ended and ended[-1].state == "running" and ended[-1].stage == event.stage:
                ended.pop()
            ended.append(event)
        return ended
