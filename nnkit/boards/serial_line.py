"""Frames over a serial line, to firmware that validates a build: the host's side.

A frame is `NK`, a letter, the payload's length (32 bits, little endian), the payload, and the CRC-32 of all but `NK`.
"""

from __future__ import annotations

import os
import select
import struct
import time
import zlib
from dataclasses import dataclass
from typing import Any

from nnkit.errors import ToolError, UsageError

_START = b"NK"
_HEAD = struct.Struct("<cI")
_CHECK = struct.Struct("<I")
_MOST_BYTES = 1 << 28
_REMEDY = "check the cable, the port and the baud rate, and reset the device"


@dataclass(frozen=True)
class SerialPort:
    """Where a device is: the path of its port, bits per second, and how long it may be silent."""

    path: str
    baud: int = 115_200
    timeout_s: float = 60.0


class SerialLine:
    """An open port in raw mode; a context manager. Raises ToolError where the device does not answer as it should."""

    def __init__(self, port: SerialPort) -> None:
        self._port = port
        try:
            import termios
        except ImportError as error:
            raise ToolError(
                "serial ports need a POSIX system", where=port.path, remedy="use Linux or macOS"
            ) from error
        speed = getattr(termios, f"B{port.baud}", None)
        if speed is None:
            raise UsageError(f"no serial port has {port.baud} baud", where="--baud", remedy="115200, 921600, ...")
        try:
            self._file = os.open(port.path, os.O_RDWR | os.O_NOCTTY)
        except OSError as error:
            raise ToolError(f"cannot be opened: {error.strerror}", where=port.path, remedy=_REMEDY) from error
        try:
            self._make_raw(termios, speed)
        except termios.error as error:
            os.close(self._file)
            raise ToolError("this is no serial port", where=port.path, remedy="name one, as /dev/ttyACM0") from error

    def _make_raw(self, termios: Any, speed: int) -> None:
        settings = termios.tcgetattr(self._file)
        settings[0] = settings[1] = settings[3] = 0
        settings[2] = termios.CS8 | termios.CREAD | termios.CLOCAL
        settings[4] = settings[5] = speed
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 0, 0
        termios.tcsetattr(self._file, termios.TCSANOW, settings)
        termios.tcflush(self._file, termios.TCIOFLUSH)

    def __enter__(self) -> SerialLine:
        return self

    def __exit__(self, *details: object) -> None:
        os.close(self._file)

    def send(self, letter: bytes, payload: bytes = b"") -> None:
        """Send a frame."""
        body = _HEAD.pack(letter, len(payload)) + payload
        data = memoryview(_START + body + _CHECK.pack(zlib.crc32(body)))
        while data:
            data = data[os.write(self._file, data) :]

    def receive(self) -> tuple[bytes, bytes]:
        """The letter and the payload of the next frame."""
        window = self._read(2)
        while window != _START:  # what a device prints when it starts
            window = window[1:] + self._read(1)
        head = self._read(_HEAD.size)
        letter, size = _HEAD.unpack(head)
        if size > _MOST_BYTES:
            raise self._damaged()
        payload = self._read(size)
        if _CHECK.unpack(self._read(_CHECK.size))[0] != zlib.crc32(head + payload):
            raise self._damaged()
        return letter, payload

    def _damaged(self) -> ToolError:
        return ToolError("a frame arrived damaged", where=self._port.path, remedy=_REMEDY)

    def _read(self, count: int) -> bytes:
        data = bytearray()
        deadline = time.monotonic() + self._port.timeout_s
        while len(data) < count:
            ready, _, _ = select.select([self._file], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._file, count - len(data)) if ready else b""
            if ready and not part:
                raise ToolError("the line was closed", where=self._port.path, remedy=_REMEDY)
            if not ready:
                raise ToolError(
                    f"the device was silent for {self._port.timeout_s:g} s", where=self._port.path, remedy=_REMEDY
                )
            data += part
            deadline = time.monotonic() + self._port.timeout_s
        return bytes(data)
