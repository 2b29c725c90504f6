"""The networks that are measured: two face networks where their files exist, and seeded ones of common shapes.

Weights of the seeded networks are random: instruction counts and memory depend on shapes, not on values.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
_CALIBRATION_INPUTS = 4


@dataclass(frozen=True)
class Network:
    """A network as the recipe's `model` section. `published_formats`: pinned formats that came with it."""

    name: str
    onnx: Path
    input_name: str
    input_section: str
    published_formats: Path | None = None

    def recipe(self, options: str) -> str:
        """A recipe with these options (YAML flow) of the gap8 target."""
        return (
            f"nnkit: 1\nname: {self.name}\nmodel:\n  path: {json.dumps(str(self.onnx))}\n"
            f"  inputs: {{{self.input_name}: {self.input_section}}}\ntargets:\n  gap8: {{{options}}}\n"
        )


def shared_folder() -> Path | None:
    """The folder of real networks: NNKIT_SHARED; None where it is not set or does not exist."""
    named = os.environ.get("NNKIT_SHARED")
    return Path(named).resolve() if named and Path(named).is_dir() else None


def available(folder: Path, wanted: list[str] | None = None) -> list[Network]:
    """The networks by name (None: without `tiny`, `vww`, `wide`), seeded ones in `folder`. Raises SystemExit."""
    makers: dict[str, Callable[[], Network]] = {}
    own = REPOSITORY / "recipes" / "gap8_reid" / "reid.onnx"
    shared = shared_folder()
    if own.is_file():
        makers["face"] = lambda: Network("face", own, "image", _pixels(own.parent / "calibration" / "*.pgm"))
    if shared is not None and (shared / "models" / "gap8_reid" / "reid.onnx").is_file():
        model = shared / "models" / "gap8_reid"
        section = _pixels(shared / "images" / "faces" / "*" / "*.pgm", crop="center")
        makers["face_published"] = lambda: Network(
            "face_published", model / "reid.onnx", "image", section, model / "published_formats.json"
        )
    if shared is not None and (shared / "quant_bench" / "vww.onnx").is_file():
        makers["vww"] = partial(_people, shared / "quant_bench", folder)
    for name, builder in (
        ("mobilenet_v2", mobilenet_v2),
        ("resnet", resnet),
        ("unet", unet),
        ("wide", wide),
        ("tiny", tiny),
    ):
        makers[name] = partial(_seeded, name, builder, folder)
    unknown = [name for name in wanted or [] if name not in makers]
    if unknown:
        raise SystemExit(f"no network {', '.join(unknown)} here; there are: {', '.join(makers)}")
    asked = wanted or [name for name in makers if name not in ("tiny", "vww", "wide")]
    return [maker() for name, maker in makers.items() if name in asked]


def mobilenet_v2(path: Path) -> tuple[int, ...]:
    """MobileNetV2 of width 0.35 for 96x96 RGB. Returns the input's shape."""
    net = _builder().Net((1, 3, 96, 96))
    x = net.relu6(net.batch_norm(net.conv("x", 16, 3, 2, bias=False)))
    groups = ((1, 8, 1, 1), (6, 8, 2, 2), (6, 16, 3, 2), (6, 24, 4, 2), (6, 32, 3, 1), (6, 56, 3, 2), (6, 112, 1, 1))
    for expand, out, repeats, first_stride in groups:
        for index in range(repeats):
            stride, inner, skip = (first_stride if index == 0 else 1), net.channels[x] * expand, x
            y = net.relu6(net.batch_norm(net.conv(x, inner, 1, bias=False))) if expand > 1 else x
            y = net.relu6(net.batch_norm(net.conv(y, inner, 3, stride, groups=inner, bias=False)))
            x = net.batch_norm(net.conv(y, out, 1, bias=False))
            if stride == 1 and out == net.channels[skip]:
                x = net.add(skip, x)
    x = net.relu6(net.batch_norm(net.conv(x, 1280, 1, bias=False)))
    net.save(path, net.gemm(net.flatten(net.global_pool(x)), 10))
    return tuple(net.shape)


def resnet(path: Path) -> tuple[int, ...]:
    """The ResNet-8 of common small benchmarks: 32x32 RGB, 16, 32 and 64 channels. Returns the input's shape."""
    net = _builder().Net((1, 3, 32, 32))
    x = net.relu(net.batch_norm(net.conv("x", 16, 3, bias=False)))
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.relu(net.batch_norm(net.conv(x, out, 3, stride, bias=False)))
        y = net.batch_norm(net.conv(y, out, 3, bias=False))
        shortcut = x if stride == 1 else net.batch_norm(net.conv(x, out, 1, stride, bias=False))
        x = net.relu(net.add(y, shortcut))
    net.save(path, net.gemm(net.flatten(net.global_pool(x)), 10))
    return tuple(net.shape)


def unet(path: Path) -> tuple[int, ...]:
    """A U-Net for 64x64 gray: 8, 16 and 32 channels, transposed convolutions, two outputs. Returns the shape."""
    net = _builder().Net((1, 1, 64, 64))
    a = net.relu(net.conv(net.relu(net.conv("x", 8)), 8))
    b = net.relu(net.conv(net.relu(net.conv(net.max_pool(a), 16)), 16))
    c = net.relu(net.conv(net.relu(net.conv(net.max_pool(b), 32)), 32))
    d = net.relu(net.conv(net.concat(b, net.up_conv(c, 16)), 16))
    e = net.relu(net.conv(net.concat(a, net.up_conv(d, 8)), 8))
    net.save(path, net.conv(e, 2, 1), net.conv(d, 2, 1))
    return tuple(net.shape)


def wide(path: Path) -> tuple[int, ...]:
    """The last layers of VGG and ResNet on 4x4 pixels: 3x3 over 256 and 512 channels. Returns the input's shape."""
    net = _builder().Net((1, 64, 8, 8))
    x = net.max_pool(net.relu(net.conv("x", 256, 3)))
    x = net.relu(net.conv(net.relu(net.conv(x, 512, 3)), 512, 3))
    net.save(path, net.gemm(net.flatten(net.global_pool(x)), 10))
    return tuple(net.shape)


def tiny(path: Path) -> tuple[int, ...]:
    """A few small layers with a fused pool and a Fire module: to try a benchmark. Returns the input's shape."""
    net = _builder().Net((1, 1, 16, 16))
    x = net.max_pool(net.relu(net.conv("x", 6, 3, 2)))
    s = net.relu(net.conv(x, 3, 1))
    x = net.concat(net.relu(net.conv(s, 5, 1)), net.relu(net.conv(s, 5, 3)))
    net.save(path, net.flatten(net.global_pool(net.up_conv(x, 4))))
    return tuple(net.shape)


def _people(source: Path, folder: Path) -> Network:
    """A MobileNet for 96x96 pictures of people, with some of its pictures."""
    pictures = np.load(source / "vww.npz")["cal"][:16]
    for index, picture in enumerate(pictures):
        np.save(folder / f"vww_{index}.npy", picture[None].astype(np.float32) / np.float32(255))
    section = f"{{shape: [1, 3, 96, 96], calibration: {{images: {json.dumps(str(folder / 'vww_*.npy'))}}}}}"
    return Network("vww", source / "vww.onnx", "x", section)


def _seeded(name: str, builder: Callable[[Path], tuple[int, ...]], folder: Path) -> Network:
    path = folder / f"{name}.onnx"
    shape = builder(path)
    for index in range(_CALIBRATION_INPUTS):
        values = np.random.default_rng(index).normal(0, 1, shape).astype(np.float32)
        np.save(folder / f"{name}_{index}.npy", values)
    section = f"{{calibration: {{images: {json.dumps(str(folder / f'{name}_*.npy'))}}}}}"
    return Network(name, path, "x", section)


def _pixels(images: Path, crop: str | None = None) -> str:
    cropped = f"crop: {crop}, " if crop else ""
    return (
        f"{{shape: [1, 1, 128, 128], preprocess: {{color: gray, {cropped}resize: {{size: [128, 128], "
        f"filter: bilinear}}}}, calibration: {{images: {json.dumps(str(images))}, count: 40}}}}"
    )


def _builder() -> Any:
    """The layer-by-layer graph builder, which the end-to-end tests own."""
    path = REPOSITORY / "tests" / "end_to_end" / "networks.py"
    spec = importlib.util.spec_from_file_location("nnkit_benchmark_graph_builder", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is missing: run the benchmarks in a checkout of the repository")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
