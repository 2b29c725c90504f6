"""A session with a deployed pipeline: commands, and what the networks and stages give for them, in Python.

The generated programs read the same commands from a file and write their results in the same form, so that all can be
compared number by number. Every word is 32 bits, little-endian. A command is its code and its payload:

| code | command | payload | result |
|---|---|---|---|
| 0 | run a network | its index, its inputs | status, its outputs |
| 1 | search a frame | pixels | status, count, ten words of each face: see `FoundFace` |
| 2 | enrol | name, pixels | status |
| 3 | remove | name | status |
| 4 | save | | status |
| 5 | empty the gallery and load it | | status |

The trace has of every stage that ran its number, its bytes, and what it wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.deployed.face_match import FaceMatchStages
from nnkit.deployed.parts import NetworkPart
from nnkit.errors import UsageError
from nnkit.postprocess import Box, NoGalleryError, OtherNetworkError, People, PeopleStore, crop_face, detect, shrink
from nnkit.postprocess.face_crop import MAX_PIXELS
from nnkit.program import Program

NETWORK, SEARCH, ENROL, REMOVE, SAVE, LOAD = range(6)

OK, ERROR_BOX, ERROR_BOX_OUTSIDE, ERROR_FULL = 0, -3, -4, -5
ERROR_EMPTY, ERROR_OTHER, ERROR_NAME, ERROR_NO_FACE = -8, -9, -10, -11
NO_INDEX = 0xFFFFFFFF

Run = Callable[[str, Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]
"""Outputs, and perhaps more, of a network by name for stored inputs."""


@dataclass(frozen=True, eq=False)
class Command:
    """code: of the module's table. network, inputs: of NETWORK. frame, name: of those that have them."""

    code: int
    network: str = ""
    inputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    frame: NDArray[np.uint8] | None = None
    name: str = ""


@dataclass(frozen=True)
class FoundFace:
    """A face of a frame: box in pixels (x, y, width, height), score as stored; status of the crop; and the nearest
    entry of the gallery: known, index, distance in two halves.

    name: of that entry, if it is near enough.
    """

    box: Box
    score: int
    status: int
    known: bool
    index: int
    squared_distance: int
    name: str = ""

    def words(self) -> bytes:
        """As the C writes it."""
        high, low = divmod(self.squared_distance, 1 << 32)
        box = self.box
        boxed = struct.pack("<6i", box.x, box.y, box.width, box.height, self.score, self.status)
        return boxed + struct.pack("<iIII", int(self.known), self.index, high, low)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a command gives: the bytes of the C's results, and of a search its faces."""

    command: Command
    result: bytes
    faces: tuple[FoundFace, ...] = ()


@dataclass(frozen=True, eq=False)
class Traced:
    """What one stage wrote."""

    stage: int
    data: bytes


class Session:
    """The pipeline in Python: the programs by `run`, the stages by `nnkit.postprocess`."""

    def __init__(self, parts: Sequence[NetworkPart], stages: FaceMatchStages | None, run: Run) -> None:
        self.parts = {part.name: part.program for part in parts}
        self.stages = stages
        self.run = run
        self.trace: list[Traced] = []
        self.people: People | None = None
        self.store: PeopleStore | None = None
        if stages is not None:
            self.people = People(stages.match, stages.name_bytes, stages.network)
            self.store = PeopleStore(stages.store_bytes)

    def answer(self, command: Command) -> Answer:
        """Do what a command says."""
        if command.code == NETWORK:
            program = self.parts[command.network]
            outputs = self.run(command.network, command.inputs)
            data = b"".join(stored_bytes(program, name, outputs[name]) for name in program.outputs)
            return Answer(command, _status(OK) + data)
        if command.code == SEARCH:
            faces = tuple(self._search(_frame(command)))
            return Answer(
                command, _status(OK) + struct.pack("<i", len(faces)) + b"".join(f.words() for f in faces), faces
            )
        return Answer(command, _status(self._change(command)))

    def _change(self, command: Command) -> int:
        stages, people, store = self._pipeline()
        if command.code == ENROL:
            return self._enrol(command.name, _frame(command))
        if command.code == REMOVE:
            return OK if people.remove(command.name) else ERROR_NAME
        if command.code == SAVE:
            store.save(people)
            return OK
        self.people = People(stages.match, stages.name_bytes, stages.network)
        try:
            store.load(self.people)
        except NoGalleryError:
            return ERROR_EMPTY
        except OtherNetworkError:
            return ERROR_OTHER
        return OK

    def _pipeline(self) -> tuple[FaceMatchStages, People, PeopleStore]:
        if self.stages is None or self.people is None or self.store is None:
            raise UsageError("the deployment has no pipeline", where="session", remedy="run its networks alone")
        return self.stages, self.people, self.store

    def _detections(self, frame: NDArray[np.uint8]) -> list[tuple[Box, int]]:
        """Box in pixels and score of the best faces."""
        stages = self._pipeline()[0]
        program = self.parts[stages.detector]
        image = shrink(frame, stages.shrink)
        self.trace.append(Traced(0, stored_bytes(program, stages.image, image)))
        shape = program.tensors[stages.image].shape
        outputs = self.run(stages.detector, {stages.image: image.astype(np.int64).reshape(shape)})
        for name in program.outputs:
            self.trace.append(Traced(1, stored_bytes(program, name, outputs[name])))
        flat = {name: np.asarray(outputs[name]).reshape(-1) for name in program.outputs}
        detections = detect(flat[stages.boxes], flat[stages.scores], stages.detect)
        return [(stages.box(each), int(each.score)) for each in detections[: stages.faces]]

    def _description(self, frame: NDArray[np.uint8], box: Box) -> tuple[int, NDArray[Any] | None]:
        """Status of the crop, and the descriptor."""
        stages = self._pipeline()[0]
        status = _crop_status(box, frame.shape)
        if status != OK:
            return status, None
        program = self.parts[stages.descriptor]
        face = crop_face(frame, box, stages.crop)
        self.trace.append(Traced(3, stored_bytes(program, stages.face, face)))
        shape = program.tensors[stages.face].shape
        outputs = self.run(stages.descriptor, {stages.face: face.astype(np.int64).reshape(shape)})
        for name in program.outputs:
            self.trace.append(Traced(4, stored_bytes(program, name, outputs[name])))
        described = np.asarray(outputs[stages.description]).reshape(-1)
        return OK, described.astype(stages.match.numbers.dtype)

    def _search(self, frame: NDArray[np.uint8]) -> list[FoundFace]:
        people = self._pipeline()[1]
        faces = []
        for box, score in self._detections(frame):
            status, descriptor = self._description(frame, box)
            if descriptor is None:
                faces.append(FoundFace(box, score, status, False, NO_INDEX, (1 << 64) - 1))
                continue
            match = people.match(descriptor)
            if match.index is None or match.squared_distance is None:
                faces.append(FoundFace(box, score, OK, False, NO_INDEX, (1 << 64) - 1))
            else:
                name = people.names[match.index] if match.known else ""
                faces.append(FoundFace(box, score, OK, match.known, match.index, match.squared_distance, name))
        return faces

    def _enrol(self, name: str, frame: NDArray[np.uint8]) -> int:
        people = self._pipeline()[1]
        detections = self._detections(frame)
        if not detections:
            return ERROR_NO_FACE
        status, descriptor = self._description(frame, detections[0][0])
        if descriptor is None:
            return status
        return OK if people.enrol(name, descriptor) else ERROR_FULL


def command_bytes(parts: Sequence[NetworkPart], stages: FaceMatchStages | None, commands: Sequence[Command]) -> bytes:
    """The file that the generated programs read."""
    indices = {part.name: index for index, part in enumerate(parts)}
    programs = {part.name: part.program for part in parts}
    data = []
    for command in commands:
        data.append(struct.pack("<i", command.code))
        if command.code == NETWORK:
            program = programs[command.network]
            data.append(struct.pack("<i", indices[command.network]))
            data += [stored_bytes(program, name, command.inputs[name]) for name in program.inputs]
        if command.code in (ENROL, REMOVE) and stages is not None:
            data.append(command.name.encode().ljust(stages.name_bytes, b"\0"))
        if command.frame is not None:
            data.append(np.ascontiguousarray(command.frame).tobytes())
    return b"".join(data)


def stored_bytes(program: Program, name: str, values: NDArray[Any]) -> bytes:
    """A tensor as it lies in memory."""
    dtype = program.tensors[name].fixed.dtype.newbyteorder("<")
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


def trace_bytes(trace: Sequence[Traced]) -> bytes:
    """The file that the generated programs write."""
    return b"".join(struct.pack("<II", each.stage, len(each.data)) + each.data for each in trace)


def _crop_status(box: Box, shape: tuple[int, ...]) -> int:
    """What `nnkit_face_crop` returns for a box."""
    height, width = shape
    if not (1 <= box.width <= MAX_PIXELS and 1 <= box.height <= MAX_PIXELS):
        return ERROR_BOX
    if max(abs(box.x), abs(box.y)) > MAX_PIXELS:
        return ERROR_BOX
    inside = box.x < width and box.x + box.width > 0 and box.y < height and box.y + box.height > 0
    return OK if inside else ERROR_BOX_OUTSIDE


def _frame(command: Command) -> NDArray[np.uint8]:
    if command.frame is None:
        raise UsageError("the command has no frame", where="session", remedy="give it one")
    return command.frame


def _status(code: int) -> bytes:
    return struct.pack("<i", code)
