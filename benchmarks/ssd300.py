"""SSD300-VGG16 as its authors' Caffe files have it, weights random and seeded: what its C takes, and one run."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Row
from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import caffe_model
from nnkit.program import macs
from nnkit_ansi_c.emit import emit_library
from nnkit_ansi_c.lowered import AnsiCLowered, arena_bytes
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.options import AnsiCOptions
from nnkit_ansi_c.quantize import float_program
from nnkit_ansi_c.stripes import Stripes

CLASSES = 21
PUBLISHED_BYTES = 24_200_000
"""Bytes of activations in the table of the publication; the first layers are computed in stripes to stay below."""
VGG = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
EXTRA = (("6", 256, 512, 2, 1), ("7", 128, 256, 2, 1), ("8", 128, 256, 1, 0), ("9", 128, 256, 1, 0))
"""Name, channels of the 1x1 layer, of the 3x3 layer, its stride and padding."""
HEADS = (
    ("conv4_3_norm", 512, 30, 60, (2,), 8),
    ("fc7", 1024, 60, 111, (2, 3), 16),
    ("conv6_2", 512, 111, 162, (2, 3), 32),
    ("conv7_2", 256, 162, 213, (2, 3), 64),
    ("conv8_2", 256, 213, 264, (2,), 100),
    ("conv9_2", 256, 264, 315, (2,), 300),
)
"""Map, its channels, min_size, max_size, aspect ratios, step."""


class _Net:
    """A network in Caffe's messages, layer by layer."""

    def __init__(self) -> None:
        from nnkit.caffe.schema import messages

        self.messages = messages
        self.text: list[str] = []
        self.weights = messages.NetParameter()
        self.random = np.random.default_rng(1)

    def layer(self, name: str, kind: str, bottoms: list[str], parameters: str = "", top: str = "") -> str:
        given = "".join(f' bottom: "{each}"' for each in bottoms)
        self.text.append(f'layer {{ name: "{name}" type: "{kind}"{given} top: "{top or name}" {parameters} }}')
        return top or name

    def conv(self, name: str, bottom: str, sizes: tuple[int, int, int], more: str = "", relu: bool = True) -> str:
        """sizes: channels, filters, kernel."""
        channels, filters, kernel = sizes
        parameters = f"convolution_param {{ num_output: {filters} kernel_size: {kernel} {more} }}"
        self.layer(name, "Convolution", [bottom], parameters)
        scale = np.sqrt((2.0 if relu else 1.0) / (channels * kernel * kernel))
        record = self.weights.layer.add(name=name, type="Convolution")
        for values in (
            self.random.standard_normal((filters, channels, kernel, kernel), np.float32) * np.float32(scale),
            np.zeros(filters, np.float32),
        ):
            blob = record.blobs.add()
            blob.shape.dim.extend(values.shape)
            blob.data.extend(values.reshape(-1).tolist())
        return self.layer(f"{name}_relu", "ReLU", [name], top=name) if relu else name

    def pool(self, name: str, bottom: str, parameters: str = "kernel_size: 2 stride: 2") -> str:
        return self.layer(name, "Pooling", [bottom], f"pooling_param {{ pool: MAX {parameters} }}")


def ssd300() -> tuple[bytes, bytes]:
    """The prototxt and the caffemodel."""
    net = _Net()
    net.text.append(
        'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 300 dim: 300 } } }'
    )
    top, channels = "data", 3
    for block, widths in enumerate(VGG, 1):
        for index, width in enumerate(widths, 1):
            top = net.conv(f"conv{block}_{index}", top, (channels, width, 3), "pad: 1")
            channels = width
        top = net.pool(
            f"pool{block}", top, "kernel_size: 3 stride: 1 pad: 1" if block == 5 else "kernel_size: 2 stride: 2"
        )
    top = net.conv("fc6", top, (512, 1024, 3), "pad: 6 dilation: 6")
    top = net.conv("fc7", top, (1024, 1024, 1))
    channels = 1024
    for name, few, width, stride, pad in EXTRA:
        top = net.conv(f"conv{name}_1", top, (channels, few, 1))
        top = net.conv(f"conv{name}_2", top, (few, width, 3), f"stride: {stride} pad: {pad}")
        channels = width
    net.layer("conv4_3_norm", "Normalize", ["conv4_3"], "norm_param { across_spatial: false channel_shared: false }")
    record = net.weights.layer.add(name="conv4_3_norm", type="Normalize")
    blob = record.blobs.add()
    blob.shape.dim.append(512)
    blob.data.extend([20.0] * 512)
    joined: dict[str, list[str]] = {"loc": [], "conf": [], "priorbox": []}
    for name, width, low, high, ratios, step in HEADS:
        boxes = 2 + 2 * len(ratios)
        for kind, values in (("loc", 4), ("conf", CLASSES)):
            head = net.conv(f"{name}_mbox_{kind}", name, (width, boxes * values, 3), "pad: 1", relu=False)
            turned = f"permute_param {{ {' '.join(f'order: {axis}' for axis in (0, 2, 3, 1))} }}"
            net.layer(f"{head}_perm", "Permute", [head], turned)
            joined[kind].append(net.layer(f"{head}_flat", "Flatten", [f"{head}_perm"], "flatten_param { axis: 1 }"))
        shapes = f"min_size: {low} max_size: {high} {' '.join(f'aspect_ratio: {ratio}' for ratio in ratios)}"
        rest = "flip: true clip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"
        parameters = f"prior_box_param {{ {shapes} {rest} step: {step} offset: 0.5 }}"
        joined["priorbox"].append(net.layer(f"{name}_mbox_priorbox", "PriorBox", [name, "data"], parameters))
    for kind, axis in (("loc", 1), ("conf", 1), ("priorbox", 2)):
        net.layer(f"mbox_{kind}", "Concat", joined[kind], f"concat_param {{ axis: {axis} }}")
    net.layer("conf_rows", "Reshape", ["mbox_conf"], f"reshape_param {{ shape {{ dim: 0 dim: -1 dim: {CLASSES} }} }}")
    net.layer("conf_softmax", "Softmax", ["conf_rows"], "softmax_param { axis: 2 }")
    net.layer("conf_flat", "Flatten", ["conf_softmax"], "flatten_param { axis: 1 }")
    net.layer(
        "detection_out",
        "DetectionOutput",
        ["mbox_loc", "conf_flat", "mbox_priorbox"],
        f"detection_output_param {{ num_classes: {CLASSES} share_location: true background_label_id: 0 "
        "nms_param { nms_threshold: 0.45 top_k: 400 } code_type: CENTER_SIZE keep_top_k: 200 "
        "confidence_threshold: 0.01 }",
    )
    return "\n".join(net.text).encode(), net.weights.SerializeToString()


def ssd300_row() -> Row:
    """MACs, weights and bytes, and the largest difference of the C's detections from ONNX Runtime's."""
    model = caffe_model(*ssd300()).model
    whole = AnsiCLowered.of(model)
    lowered = AnsiCLowered.of(model, Stripes(limit_bytes=PUBLISHED_BYTES))
    program = float_program(lowered.graph, CalibrationStats({}, "max", 0, ""), "ssd300")
    plain = float_program(whole.graph, CalibrationStats({}, "max", 0, ""), "whole")
    network = Network.of(program)
    image = np.random.default_rng(2).uniform(-1.7, 1.7, (1, 3, 300, 300)).astype(np.float32)
    start = time.perf_counter()
    expected = FloatSession(model).run({program.inputs[0]: image})[program.outputs[0]].reshape(-1, 7)
    reference_seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory(prefix="nnkit-ssd300-") as name:
        folder = Path(name)
        emit_library(network, AnsiCOptions(), folder)
        image.tofile(folder / "in.bin")
        flags = "CFLAGS=-O3 -march=x86-64-v3 -ffp-contract=off"
        subprocess.run(["make", "example", flags], cwd=folder, check=True, capture_output=True)
        start = time.perf_counter()
        subprocess.run([folder / "example", "in.bin", "out.bin"], cwd=folder, check=True)
        seconds = time.perf_counter() - start
        found = np.fromfile(folder / "out.bin", np.float32).reshape(-1, 7)
    row: dict[str, Any] = {
        "macs": sum(macs(op, program) for op in program.ops),
        "whole_macs": sum(macs(op, plain) for op in plain.ops),
        "weight_values": network.weight_bytes // 4,
        "weight_bytes": network.weight_bytes,
        "arena_bytes": network.arena_bytes,
        "whole_arena_bytes": arena_bytes(whole.graph),
        "detections": int((found[:, 0] == 0).sum()),
        "onnxruntime_detections": int((expected[:, 0] == 0).sum()),
        "largest_difference": float(np.abs(found - expected).max()),
        "seconds": round(seconds, 2),
        "onnxruntime_seconds": round(reference_seconds, 2),
    }
    return row
