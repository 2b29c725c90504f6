"""Small random graphs through the whole chain: the compiled C computes what the simulator computes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnkit.c.fixed.machine import CoreMachine
from nnkit.calibrate import calibrate
from nnkit.importers import ImportOptions, import_onnx
from nnkit.preprocess import Preprocess
from nnkit.program.inputs import quantized_inputs, stress_inputs
from nnkit.quantize import quantize
from nnkit.quantize.lowering import lower
from nnkit.rewrite import DEFAULT_RULES, resolve_rules, restructure
from nnkit.samples import Sample
from nnkit.verify.artifact import compare_artifact
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.runners import HostRunner
from nnkit_gap8.target import Gap8Target

from .networks import Net


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Net, list[str]]:
    """Two to seven layers over a growing set of values; every value that nobody reads is an output."""
    net = Net(
        (1, draw(st.integers(1, 3)), draw(st.integers(5, 9)), draw(st.integers(5, 9))), draw(st.integers(0, 999))
    )
    sizes = {"x": tuple(net.shape[2:])}
    read: set[str] = set()

    def made(value: str, *sources: str, size: tuple[int, int]) -> None:
        sizes[value] = size
        read.update(sources)

    for _ in range(draw(st.integers(2, 7))):
        x = draw(st.sampled_from(sorted(sizes)))
        (height, width), channels = sizes[x], net.channels[x]
        kind = draw(st.sampled_from(["conv", "conv", "depthwise", "relu", "pool", "add", "concat", "up", "norm"]))
        if kind == "conv":
            kernel, stride = draw(st.sampled_from([1, 3])), draw(st.integers(1, 2))
            y = net.conv(x, draw(st.integers(1, 9)), kernel, stride)
            made(y, x, size=((height - 1) // stride + 1, (width - 1) // stride + 1))
        elif kind == "depthwise":
            made(net.conv(x, channels, 3, groups=channels), x, size=(height, width))
        elif kind == "relu":
            made(draw(st.sampled_from([net.relu, net.relu6]))(x), x, size=(height, width))
        elif kind == "pool" and min(height, width) >= 2:
            made(net.max_pool(x), x, size=(height // 2, width // 2))
        elif kind == "up" and max(height, width) <= 8:
            made(net.upsample(x), x, size=(2 * height, 2 * width))
        elif kind == "norm":
            made(net.batch_norm(x), x, size=(height, width))
        elif kind in ("add", "concat"):
            alike = [v for v in sorted(sizes) if sizes[v] == sizes[x] and v != "x"]
            same = [v for v in alike if net.channels[v] == channels]
            if kind == "add" and x != "x" and same:
                other = draw(st.sampled_from(same))
                made(net.add(x, other), x, other, size=(height, width))
            elif kind == "concat" and x != "x":
                other = draw(st.sampled_from(alike))
                made(net.concat(x, other), x, other, size=(height, width))
    outputs = [value for value in sizes if value not in read and value != "x"]
    return net, outputs


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    graphs(),
    st.sampled_from(["int16", "int8"]),
    st.sampled_from(["wide", "running"]),
    st.integers(1, 8),
    st.sampled_from(["auto", "always"]),
)
def test_compiled_c_equals_the_simulator(
    case: tuple[Net, list[str]], precision: str, accumulate: str, cores: int, unsigned: str
) -> None:
    net, outputs = case
    if not outputs:
        return
    target = Gap8Target()
    options = Gap8Options(precision=precision, accumulate=accumulate, cores=cores, unsigned=unsigned)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = net.save(Path(folder) / "net.onnx", *outputs)
        imported = import_onnx(path, ImportOptions(simplify=False)).model
        model, _ = restructure(imported, resolve_rules(DEFAULT_RULES))
        feeds = [np.random.default_rng(i).normal(0, 1, net.shape).astype(np.float32) for i in range(2)]
        stats = calibrate(model, {"x": feeds}, {"x": Preprocess()})
        program = quantize(lower(model), stats, target.scheme(options, 1.25, {}), name="random")
        plan = checked_plan(program, options)
        artifact = Path(folder) / "artifact"
        for name, content in emit_artifact(program, plan, CoreMachine(cores, 64 << 10)).items():
            (artifact / name).parent.mkdir(parents=True, exist_ok=True)
            (artifact / name).write_bytes(content)
        inputs = [quantized_inputs(program, Sample("", {"x": feeds[0]})), *stress_inputs(program, 2)]
        verdict = compare_artifact(HostRunner(), artifact, program, inputs, traced=1)
    assert verdict.values > 0
    assert verdict.mismatches == 0, verdict.first_difference
