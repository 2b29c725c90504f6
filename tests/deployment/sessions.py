"""A session with the tiny deployment that uses every command, on frames of all sorts."""

from __future__ import annotations

import numpy as np

from nnkit.deployed import Deployed
from nnkit.deployed.session import ENROL, LOAD, REMOVE, SAVE, SEARCH, Command, Session, command_bytes
from nnkit.simulate import simulate


def python_session(deployed: Deployed) -> Session:
    programs = {part.name: part.program for part in deployed.parts}
    return Session(deployed.parts, deployed.stages, lambda name, inputs: simulate(programs[name], inputs))


def commands(count: int = 6) -> list[Command]:
    """Frames of all sorts: noise, gradients, black, white."""
    rng = np.random.default_rng(11)
    ramp = np.add.outer(np.arange(48) * 3, np.arange(64) * 2) % 256
    frames = [rng.integers(0, 256, (48, 64)) for _ in range(count)]
    frames += [ramp, np.zeros((48, 64)), np.full((48, 64), 255)]
    pictures = [frame.astype(np.uint8) for frame in frames]
    session = [Command(SEARCH, frame=pictures[0]), Command(LOAD)]
    session += [
        Command(ENROL, frame=each, name=name) for each, name in zip(pictures, ("a", "bb", "a", "ccc"), strict=False)
    ]
    session += [Command(SEARCH, frame=each) for each in pictures]
    session += [
        Command(SAVE),
        Command(REMOVE, name="a"),
        Command(REMOVE, name="nobody"),
        Command(SAVE),
        Command(LOAD),
    ]
    return [*session, Command(SEARCH, frame=pictures[1]), Command(SAVE)]


def session_bytes(deployed: Deployed) -> bytes:
    """The commands as the generated programs read them."""
    return command_bytes(deployed.parts, deployed.stages, commands())
