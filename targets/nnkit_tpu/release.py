"""What a board needs beside the model: input and output formats, runtimes known to read it, runner snippets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nnkit.generated import template_environment
from nnkit.inputs import image_inputs
from nnkit.preprocess import Preprocess
from nnkit.program import Affine, Program
from nnkit.target import Deployment
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.lowered import TpuLowered
from nnkit_tpu.model_version import oldest_runtime
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.pixels import given_shape, pixel_inputs
from nnkit_tpu.program import TpuOp
from nnkit_tpu.top_mlir import PixelInput

_RUNTIMES: Mapping[str, str] = {
    "bm1684x": "libsophon (libbmrt, BMRuntime)",
    "bm1688": "libsophon of the SOC SDK (libbmrt, BMRuntime)",
    "cv": "cviruntime of the board's SDK (libcviruntime)",
}
_C_TYPES = {"float32": "float", "int8": "int8_t", "uint8": "uint8_t"}


def interface(deployment: Deployment[TpuLowered], options: TpuOptions, names: Mapping[str, str]) -> dict[str, Any]:
    """Inputs and outputs of the model: name, shape with the batch axis, type; scale, zero point of stored integers.

    For inputs that are made from images, also what is done on the host, and what on the chip.
    """
    program, images = deployment.program, image_inputs(deployment.recipe, deployment.lowered.model)
    pixels = pixel_inputs(program.inputs, images, options)
    return {
        "inputs": [
            _at_a_time(
                {
                    **_port(program, n, names[n], options.quant_input),
                    **_image(program, n, images.get(n), pixels.get(n)),
                },
                options.batch,
            )
            for n in program.inputs
        ],
        "outputs": [
            _at_a_time(
                _port(program, n, _output_name(program, n, names[n], options.quant_output), options.quant_output),
                options.batch,
            )
            for n in program.outputs
        ],
    }


def _at_a_time(port: dict[str, Any], images: int) -> dict[str, Any]:
    """The port of a model that takes so many images."""
    return {**port, "shape": [images, *port["shape"][1:]]}


def _output_name(program: Program, tensor: str, name: str, stored: bool) -> str:
    """The model's name of an output: the compiler adds a conversion to float32, named after what it converts."""
    op = program.producer(tensor)
    return name if stored or (isinstance(op, TpuOp) and op.mode == "F32") else f"{name}_f32"


def write_runners(
    deployment: Deployment[TpuLowered], options: TpuOptions, build: Mapping[str, Any], folder: Path
) -> None:
    """`interface.json` and `runner/`: C and Python against the board's runtime, and how to use them."""
    ports = interface(deployment, options, build["names"])
    family = "cv" if options.chip in CV_CHIPS else options.chip
    version = build.get("model_version")
    known = {
        "model": build.get("model"),
        "compiler": build.get("compiler"),
        "runtime": _RUNTIMES[family],
        "model_version": version,
        "oldest_runtime": oldest_runtime(version) if version else None,
        "combined": build.get("combined"),
        "tested_with": "the chip model that comes with the compiler; no board was at hand",
        **ports,
    }
    (folder / "interface.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    runner = folder / "runner"
    runner.mkdir()
    kind = "cvi" if family == "cv" else "bm"
    env = template_environment("nnkit_cfg_templates", "tpu")
    values = {**known, "chip": options.chip, "name": deployment.program.name, "family": kind}
    values["zero_points"] = any("zero_point" in port for port in (*known["inputs"], *known["outputs"]))
    for template, name in (
        (f"run_{kind}.c.j2", "run.c"),
        (f"run_{kind}.py.j2", "run.py"),
        ("README.md.j2", "README.md"),
    ):
        (runner / name).write_text(env.get_template(template).render(values), encoding="utf-8")


def _port(program: Program, tensor_name: str, name: str, stored: bool) -> dict[str, Any]:
    tensor = program.tensors[tensor_name]
    port: dict[str, Any] = {"name": name, "tensor": tensor_name, "shape": [1, *tensor.shape], "type": "float32"}
    if stored and isinstance(tensor.format, Affine):
        port |= {"type": "int8" if tensor.format.signed else "uint8", "scale": tensor.format.scale[0]}
        if tensor.format.zero_point[0]:
            port["zero_point"] = tensor.format.zero_point[0]
    port["c_type"] = _C_TYPES[port["type"]]
    return port


def _image(program: Program, name: str, steps: Preprocess | None, pixels: PixelInput | None) -> dict[str, Any]:
    """How an input is made from an image: on the host, and, of pixels, on the chip."""
    if steps is None:
        return {}
    host = asdict(steps)
    if pixels is None:
        return {"on_host": host}
    chip = {"color": steps.color, "mean": host.pop("mean"), "scale": host.pop("scale")}
    host["color"] = pixels.given_color
    return {
        "shape": list(given_shape(program.tensors[name].shape, pixels)),
        "type": "uint8",
        "c_type": _C_TYPES["uint8"],
        "color": pixels.given_color,
        "layout": "packed" if pixels.packed else "planar",
        "on_host": host,
        "on_chip": chip,
    }
