"""A real board at a serial port: the firmware that validates a build there, and the runner that talks to it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from nnkit.boards.serial_line import SerialLine, SerialPort
from nnkit.c.sources import c_environment, tidy_source
from nnkit.errors import ToolError
from nnkit.generated import write_sources
from nnkit.program import Program
from nnkit.target import Contract, RunResult
from nnkit_ansi_c.runner import described, input_bytes, layer_bound, values_of

FOLDER = "device"
_NUMBER = struct.Struct("<I")
_REASONS = {1: "it received a damaged frame", 2: "it did not understand a frame"}


def emit_firmware(record: Mapping[str, Any], build_id: int, folder: Path) -> None:
    """The validation firmware of an artifact into its folder. build_id: 32 bits that tell it from other builds."""
    values = {key: record[key] for key in ("inputs", "outputs")}
    prefix = record["name"]
    integers = record.get("arithmetic") == "integer"
    values["regions"] = record.get("regions", [])
    values |= {"prefix": prefix, "macro": prefix.upper(), "id": build_id, "integers": integers}
    environment = c_environment("nnkit_ansi_c", "templates")
    write_sources(
        folder / FOLDER,
        {f"{prefix}_validate.{end}": tidy_source(environment, f"validate.{end}.j2", values) for end in ("h", "c")},
    )


def build_id_of(parts: Sequence[bytes]) -> int:
    """32 bits of the library's text and its weights."""
    state = 0
    for part in parts:
        state = zlib.crc32(part, state)
    return state


@dataclass(frozen=True)
class DeviceRunner:
    """Runs a build on the device at a serial port, which has the firmware of that build."""

    port: SerialPort
    name: str = "device"
    contract: Contract = "bounded"
    emulated: bool = False
    layer_by_layer: Literal[True] = True

    def missing(self) -> str | None:
        """None: whether a device is there is seen when it is spoken to."""
        return None

    def bound(self, program: Program, tensor: str) -> float:
        """See `layer_bound`."""
        return layer_bound(program, tensor)

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs; every layer, where the firmware is compiled so.

        Raises ToolError where the device does not answer, answers for another build, or refuses.
        """
        record = described(artifact)
        with SerialLine(self.port) as line:
            line.send(b"I")
            (told,) = _NUMBER.unpack(_awaited(line, b"I"))
            if told != record["id"]:
                raise ToolError(
                    f"the firmware is of build {told:08x}, this build is {record['id']:08x}",
                    where=self.port.path,
                    remedy=f"compile {FOLDER}/ of this build's artifact and flash it",
                )
            return [_run(line, record, program, given, trace) for given in inputs]


def _run(
    line: SerialLine, record: Mapping[str, Any], program: Program, given: Mapping[str, NDArray[Any]], trace: bool
) -> RunResult:
    line.send(b"R", input_bytes(record, program, [given]))
    tensors: dict[str, NDArray[Any]] = {}
    while True:
        letter, payload = line.receive()
        if letter == b"O":
            return RunResult(values_of(payload, record["outputs"], program), tensors if trace else {})
        if letter != b"L":
            raise _refused(letter, payload)
        (layer,) = _NUMBER.unpack_from(payload)
        tensors |= values_of(payload[_NUMBER.size :], [record["layers"][layer]], program)


def _awaited(line: SerialLine, letter: bytes) -> bytes:
    got, payload = line.receive()
    if got != letter:
        raise _refused(got, payload)
    return payload


def _refused(letter: bytes, payload: bytes) -> ToolError:
    reason = _REASONS.get(_NUMBER.unpack_from(payload)[0]) if letter == b"X" and payload else None
    return ToolError(
        f"the device refuses: {reason}" if reason else f"the device sent {letter!r}, which was not asked for",
        remedy="reset it, and check the baud rate",
    )
