"""The board's program of a build, compiled here against stand-ins for the SDK; the NNIE's segments are simulated.

Each call of the NNIE comes as bytes over a socket, as the program laid them out, and is answered with what its
simulation gives.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Fixed, Float, Program
from nnkit.serialize import decode
from nnkit.target import load_target
from nnkit_nnie.gfpq.ops import STORED, layer_of

STUB = Path(__file__).parents[1] / "nnie" / "sdk_stub"
TYPES = {"vector": 0, "u8": 1, "yvu420sp": 2, "yvu422sp": 3}
STRICT = "-g -O1 -Wconversion -Werror"
SANITIZED = f"{STRICT} -fsanitize=address,undefined -fno-sanitize-recover=all"


def program_of(build: Path) -> Program:
    return decode((build / "program.nnkit").read_bytes(), load_target("nnie").program_classes())


class BoardSdk:
    """The program in `folder`, which becomes its working directory. most_boxes: of the networks with ROI layers."""

    def __init__(self, build: Path, folder: Path, compiler: str = "gcc", most_boxes: int = 0) -> None:
        self.folder, self.program = folder, program_of(build)
        artifact = build / "artifact"
        self.described: dict[str, Any] = json.loads((artifact / "segments.json").read_text())
        self.images = {each["name"]: each for each in self.described["inputs"] if each["image_type"] != "vector"}
        self.most_boxes = most_boxes
        self.networks = [each.get("name", "") for each in self.described["networks"]]
        nnie = [each for each in self.described["segments"] if each["runs_on"] == "nnie"]
        self.segments = [[s for s in nnie if s.get("network", "") == name] for name in self.networks]
        for network, segments in zip(self.described["networks"], self.segments, strict=True):
            wk = folder / network["wk"]
            wk.parent.mkdir(exist_ok=True)
            wk.write_text(self._model_text(segments))
        sdk = folder / "mpp"
        sdk.mkdir()
        (sdk / "include").symlink_to(STUB)
        settings = [
            f"CC={compiler}",
            "CPU=",
            f"MPP={sdk}",
            f"CFLAGS={SANITIZED if compiler == 'gcc' else STRICT}",
            f"SDK_LIBS={STUB / 'nnie_stub.c'}",
        ]
        made = subprocess.run(
            ["make", "-C", str(artifact / "board"), *settings], capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stdout + made.stderr
        self.path = next(path for path in (artifact / "board").iterdir() if os.access(path, os.X_OK))
        self.calls = 0

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The program with these arguments; the NNIE answers as long as it runs."""
        self.calls = 0
        problems: list[BaseException] = []
        own, given = socket.socketpair()
        server = threading.Thread(target=self._serve, args=(own, problems), daemon=True)
        server.start()
        done = subprocess.run(
            [self.path, *arguments],
            cwd=self.folder,
            env={"NNIE_SOCKET": str(given.fileno()), **environment},
            pass_fds=[given.fileno()],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        given.close()
        server.join()
        assert not problems, problems
        return done

    def features(self, lines: Sequence[str]) -> list[list[str]]:
        """The rows of the features of a list, name and numbers."""
        (self.folder / "list.txt").write_text("".join(f"{line}\n" for line in lines))
        done = self.run("features", "list.txt", "features.csv")
        assert (done.returncode, done.stderr) == (0, "")
        return [line.split(",") for line in (self.folder / "features.csv").read_text().splitlines()]

    def _model_text(self, segments: Sequence[dict[str, Any]]) -> str:
        text = "temporary 5000\n"
        for segment in segments:
            inputs = [self._node(each) for each in segment["inputs"] if not self._is_boxes(segment, each)]
            roi = len(inputs) != len(segment["inputs"])
            outputs = [self._node(each, regions=roi) for each in segment["outputs"]]
            text += "\n".join([f"segment {int(roi)} {len(inputs)} {len(outputs)}", *inputs, *outputs]) + "\n"
        return text

    def _is_boxes(self, segment: dict[str, Any], tensor: dict[str, Any]) -> bool:
        pools = any(layer["type"] in ("ROIPooling", "PSROIPooling") for layer in segment["layers"])
        return pools and tensor["shape"][-1] == 5 and len(tensor["shape"]) == 2

    def _node(self, tensor: dict[str, Any], regions: bool = False) -> str:
        shape, name = list(tensor["shape"]), tensor["blob"][:31]
        if regions:
            shape = shape[1:]
        if len(shape) == 1:
            return f"4 0 {shape[0]} 0 {name}"
        channels, height, width = [*shape, 1, 1][:3]
        image = self.images.get(tensor["name"])
        pixels = tensor["name"] not in self.program.inputs and self._is_pixels(tensor["name"])
        kind = 1 if pixels else TYPES[image["image_type"]] if image is not None else 0
        return f"{kind} {height} {width} {channels} {name}"

    def _is_pixels(self, name: str) -> bool:
        form = self.program.tensors[name].format
        return isinstance(form, Fixed) and form.bits == 8

    def _serve(self, own: socket.socket, problems: list[BaseException]) -> None:
        try:
            with own, own.makefile("rb") as source:
                while head := source.read(3):
                    self.calls += 1
                    own.sendall(self._answer(self.segments[head[0]][head[1]], head[2], source))
        except BaseException as error:  # the main thread tells of it
            problems.append(error)

    def _answer(self, segment: dict[str, Any], boxes: int, source: Any) -> bytes:
        values: dict[str, NDArray[Any]] = {}
        ordered = sorted(segment["inputs"], key=lambda each: self._is_boxes(segment, each))
        for each in ordered:
            if self._is_boxes(segment, each):
                rows = np.frombuffer(source.read(boxes * 16), "<i4").reshape(boxes, 4)
                values[each["name"]] = self._with_batch(rows, each)
            else:
                values[each["name"]] = self._stored(each, source)
        names = {layer["name"] for layer in segment["layers"]}
        for op in self.program.ops:
            if layer_of(op) in names:
                values[op.output] = op.compute([values[name] for name in op.inputs], self.program.tensors)
        return b"".join(values[each["name"]].astype("<i4").tobytes() for each in segment["outputs"])

    def _with_batch(self, rows: NDArray[Any], tensor: dict[str, Any]) -> NDArray[Any]:
        """Regions with a batch index of 0; those that were not sent have -1."""
        stored = np.full(tensor["shape"], STORED.quantize(np.float64(-1.0)), np.int64)
        stored[: len(rows), 0] = 0
        stored[: len(rows), 1:] = rows
        is_float = isinstance(self.program.tensors[tensor["name"]].format, Float)
        return STORED.dequantize(stored).astype(np.float32) if is_float else stored.astype(np.int32)

    def _stored(self, tensor: dict[str, Any], source: Any) -> NDArray[Any]:
        form, shape = self.program.tensors[tensor["name"]].format, tensor["shape"]
        count = int(np.prod(shape))
        image = self.images.get(tensor["name"])
        if image is not None or self._is_pixels(tensor["name"]):
            pixels = np.frombuffer(source.read(count), np.uint8).reshape(shape)
            if not isinstance(form, Float):
                return pixels.astype(form.dtype)
            means = np.asarray(image["mean"] or [0.0], np.float64).reshape(-1, 1, 1)
            return ((pixels - means) * image["data_scale"]).astype(np.float32)
        numbers = np.frombuffer(source.read(4 * count), "<i4").reshape(shape)
        return STORED.dequantize(numbers).astype(np.float32) if isinstance(form, Float) else numbers
