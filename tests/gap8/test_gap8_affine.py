"""The affine scheme of gap8: equal to the simulator in every value, within its L2, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansi_c_library import SANITIZERS
from random_affine_ops import RandomOps
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.errors import DoesNotFitError, InternalError, RecipeError
from nnkit.memory.plan import Region
from nnkit.program import Window
from nnkit.program.affine import AffineConv, AffineProgram
from nnkit.program.formats import Affine
from nnkit.program.inputs import stress_inputs
from nnkit.runner import Runner
from nnkit.simulate import simulate
from nnkit_gap8.affine.emit import emit_affine_artifact
from nnkit_gap8.affine.plan import AFFINE_STACK_BYTES, AffinePlan, _check_chunks, affine_plan
from nnkit_gap8.emit import CONTEXT_BYTES
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.runners import HostRunner, Rv32Runner
from tests.gap8.artifacts import DIALECTS, compile_only, has, sources

STUB = Path(__file__).parent / "pmsis_stub"
needs_rv32 = pytest.mark.skipif(
    not (has("riscv64-unknown-elf-gcc") and has("qemu-system-riscv32")), reason="no rv32 compiler or emulator"
)


def drawn(seed: int = 3) -> AffineProgram:
    draw = RandomOps(seed)
    for bits in (8, 16):
        draw.conv(bits=bits)
        draw.conv(bits=bits)
        draw.conv(bits=bits, transposed=True)
        draw.conv(bits=bits, depthwise=True, slopes=True)
        draw.pool("max", bits=bits)
        draw.add(bits=bits)
        draw.activation(bits=bits)
    return draw.program("net")


def planned(program: AffineProgram, l2_bytes: int = 1 << 20) -> AffinePlan:
    regions = Region("l1", 64 << 10), Region("l2", l2_bytes), Region("l3", 8 << 20)
    return affine_plan(
        program, MemoryMachine(*regions, context_bytes=CONTEXT_BYTES, stack_bytes=AFFINE_STACK_BYTES), None
    )


def written(plan: AffinePlan, folder: Path) -> Path:
    for path, content in emit_affine_artifact(plan).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def check(program: AffineProgram, artifact: Path, runner: Runner) -> None:
    given = stress_inputs(program, 2)
    for values, result in zip(given, runner.run(artifact, program, given, trace=True), strict=True):
        expected = simulate(program, values)
        for op in program.ops:
            assert np.array_equal(result.tensors[op.output], expected[op.output]), f"{runner.name}: {op.name}"
        for name in program.outputs:
            assert np.array_equal(result.outputs[name], expected[name]), name


@pytest.mark.parametrize("name", ["stack", "context"])
def test_a_value_may_be_called_as_reserved_memory(name: str, tmp_path: Path) -> None:
    """torch calls the result of `torch.stack` `stack`."""
    draw = RandomOps(3)
    draw.conv(bits=8)
    program = draw.program("net")
    last = program.ops[-1]
    tensors = {each: tensor for each, tensor in program.tensors.items() if each != last.output}
    tensors[name] = replace(program.tensors[last.output], name=name)
    plan = planned(
        replace(program, tensors=tensors, ops=(*program.ops[:-1], replace(last, output=name)), outputs=(name,))
    )
    written(plan, tmp_path)
    kinds = [buffer.kind for buffer in plan.plan.buffers.values()]
    assert (kinds.count("stack"), kinds.count("context")) == (1, 1)
    assert plan.plan.buffers[name].kind == "activation"


def built(folder: Path, options: str, more: str = "", images: int = 3) -> tuple[dict[str, Any], Path]:
    path = write_project(folder, images=images)
    path.write_text(path.read_text().replace("gap8: {}", f"gap8: {options}") + more)
    outcome = pipeline.run(make_build(path, emulate=has("qemu-system-riscv32")), folder / "out")
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    return report, outcome.folder


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ("{precision: int8, scheme: affine}", "tags: {hp: [conv2]}\n"),
        ("{scheme: affine, cluster: {cores: 4, l1: 16KiB}}", ""),
    ],
    ids=["8 bits, mixed by tags", "16 bits, on the cluster"],
)
def test_a_build_is_equal_to_its_program_in_every_value(tmp_path: Path, options: str, more: str) -> None:
    report, folder = built(tmp_path, options, more)
    assert report["status"] == "ok"
    # GVSoC, which repeats a build for the cluster, is not on every machine
    verdicts = [v for v in report["verify"]["program_vs_artifact"] if v["how"] != "gvsoc"]
    assert len(verdicts) == 2
    assert all((v["contract"], v["mismatches"]) == ("exact", 0) for v in verdicts)
    assert verdicts[0]["values"] > 1000
    program = open_build(folder).program
    check(program, folder / "artifact", HostRunner(flags=SANITIZERS))
    if more:
        widths = {layer["formats"]["weight"][:3] for layer in report["layers"] if "weight" in layer["formats"]}
        assert widths == {"s8 ", "s16"}
    else:
        cluster = report["details"]["cluster"]
        assert cluster["cores"] == 4
        assert all(0 < row["least_cycles"] <= row["modelled_cycles"] for row in cluster["layers"])
        assert {row["layer"] for row in cluster["layers"]} >= {"conv1", "conv2"}


def test_every_kind_of_layer_on_the_host(tmp_path: Path) -> None:
    program = drawn()
    check(program, written(planned(program), tmp_path), HostRunner(flags=SANITIZERS))


@needs_rv32
def test_every_kind_of_layer_on_rv32_within_memory_and_stack(tmp_path: Path) -> None:
    program = drawn(4)
    plan = planned(program)
    artifact = written(plan, tmp_path)
    check(program, artifact, Rv32Runner())
    result = Rv32Runner().run(artifact, program, stress_inputs(program, 1), trace=False)[0]
    assert result.measured["l2_painted_bytes"] <= plan.plan.regions["l2"].peak_bytes
    assert result.measured["stack_worst_bytes"] <= AFFINE_STACK_BYTES


def rows() -> AffineProgram:
    """What divides 64-bit numbers: softmax and normalisation along any axis, of 8 and of 16 bits."""
    draw = RandomOps(11)
    for bits in (8, 16):
        for axis in range(3):
            draw.softmax(bits=bits, axis=axis)
        draw.softmax(bits=bits, axis=1, rank=2)
        draw.log_softmax(bits=bits, axis=1, rank=2)
        for rank in (1, 2, 4):
            draw.normalize(bits=bits, rank=rank)
        draw.matmul(bits=bits)
    return draw.program("net")


def test_rows_without_the_compilers_division(tmp_path: Path) -> None:
    flags = ("-DNNKIT_OWN_DIVISION", *SANITIZERS)
    check(rows(), written(planned(rows()), tmp_path), HostRunner(flags=flags))


@needs_rv32
def test_rows_on_rv32_within_a_stack_that_is_known(tmp_path: Path) -> None:
    artifact = written(planned(rows()), tmp_path)
    check(rows(), artifact, Rv32Runner())
    result = Rv32Runner().run(artifact, rows(), stress_inputs(rows(), 1), trace=False)[0]
    assert result.measured["stack_used_bytes"] <= result.measured["stack_worst_bytes"] <= AFFINE_STACK_BYTES


def convolutions() -> AffineProgram:
    """A 3x3 convolution and a matrix product of 40 channels each, whose weights outweigh their values."""
    draw = RandomOps(5)
    draw.conv()
    form, window = Affine(8, (0.01,) * 40, (0,) * 40, 0, signed=True), Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    for kernel in (Window(1, 1), window):
        source = draw._input((40, 4, 5), 8)
        output = draw._tensor((40, 4, 5), 8)
        weight = draw.rng.integers(-127, 128, (40, 40, kernel.kernel_h, kernel.kernel_w)).astype(np.int8)
        fields = draw._fields((source,), output)
        bias = draw.rng.integers(-500, 500, 40).astype(np.int32)
        requantize = draw._stage(draw.rng.uniform(0.001, 0.01, 40), output)
        more = {"groups": 1, "pad_value": source.zero_point, "transposed": False, "requantize": requantize}
        draw.ops.append(AffineConv(**fields, weight=weight, weight_format=form, bias=bias, window=kernel, **more))
    return draw.program("net")


def peak_within(program: AffineProgram, l2_bytes: int) -> int | None:
    try:
        return planned(program, l2_bytes).plan.regions["l2"].peak_bytes
    except DoesNotFitError:
        return None


def only(bits: int) -> AffineProgram:
    draw = RandomOps(3)
    draw.conv(bits=bits)
    draw.conv(bits=bits)
    return draw.program("net")


@pytest.mark.parametrize(
    ("program", "narrower"),
    [(only(16), "`precision: int8`, "), (drawn(), "fewer layers of 16 bits, "), (only(8), "")],
)
@pytest.mark.parametrize(
    ("l2_bytes", "budget_bytes", "smaller"), [(16, None, "a smaller input"), (1 << 20, 1, "a smaller network")]
)
def test_fewer_bits_are_proposed_where_there_are_more_than_eight(
    program: AffineProgram, narrower: str, l2_bytes: int, budget_bytes: int | None, smaller: str
) -> None:
    regions = Region("l1", 64 << 10), Region("l2", l2_bytes), Region("l3", 8 << 20)
    with pytest.raises(DoesNotFitError) as refused:
        affine_plan(program, MemoryMachine(*regions, context_bytes=0, stack_bytes=0), budget_bytes)
    assert str(refused.value.remedy).startswith(narrower + smaller)


def test_weights_come_in_parts_where_l2_is_small(tmp_path: Path) -> None:
    program = convolutions()
    roomy = planned(program)
    peaks = [roomy.plan.regions["l2"].peak_bytes]
    while (peak := peak_within(program, peaks[-1] - 4)) is not None:
        peaks.append(peak)
    with pytest.raises(DoesNotFitError, match="more than the") as refused:
        planned(program, peaks[-1] - 4)
    assert "memory: {l2:" in str(refused.value.remedy)
    assert peaks == sorted(set(peaks), reverse=True)
    assert len(peaks) > 1
    tight = planned(program, peaks[-1])
    assert len(tight.plan.chunks) > len(roomy.plan.chunks)
    assert sum(chunk.size_bytes for chunk in tight.plan.chunks) >= sum(op.weight.size for op in program.ops)  # type: ignore[union-attr]
    check(program, written(tight, tmp_path), HostRunner(flags=SANITIZERS))


def test_a_chunk_where_something_lives_is_caught() -> None:
    plan = planned(convolutions())
    buffers = dict(plan.plan.buffers)
    chunk = max(plan.plan.chunks, key=lambda each: each.size_bytes)
    step = plan.plan.steps[chunk.step]
    place = plan.plan.buffers[plan.plan.places[step.reads[0]].buffer]
    buffers[chunk.buffer] = replace(buffers[chunk.buffer], offset_bytes=place.offset_bytes)
    with pytest.raises(InternalError, match="overlap"):
        _check_chunks(plan.network, replace(plan.plan, buffers=buffers))


@pytest.mark.parametrize("dialect", ["gcc-c90", "clang++-c++17"])
def test_no_warning_in_any_dialect(dialect: str, tmp_path: Path) -> None:
    compiler = DIALECTS[dialect]
    if not has(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    artifact = written(planned(drawn()), tmp_path / "artifact")
    files = [*sources(artifact), artifact / "host/nnkit_port_host.c", artifact / "host/main.c"]
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    for trace in ((), ("-DNNKIT_TRACE",)):
        command = (*compiler, "-O1", *trace)
        assert compile_only(command, files, [artifact, artifact / "host"], tmp_path, flags) == ""


def test_pmsis_port_runs_the_network(tmp_path: Path) -> None:
    """Weights that arrive only when waited for: the outputs are still right, on an empty input."""
    program = convolutions()
    written(planned(program), tmp_path)
    files = [*sources(tmp_path), *sorted((tmp_path / "pmsis").glob("*.c")), STUB / "pmsis_host.c"]
    command = ["gcc", "-std=gnu99", "-g", "-fsanitize=address,undefined", "-DNNKIT_PORT_PARALLEL"]
    command += [f"-I{tmp_path}", f"-I{tmp_path / 'pmsis'}", f"-I{STUB}", "-o", str(tmp_path / "app")]
    subprocess.run([*command, *map(str, files)], check=True)
    done = subprocess.run([str(tmp_path / "app")], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = simulate(program, {n: np.zeros(program.tensors[n].shape, np.int64) for n in program.inputs})
    for name in program.outputs:
        lying = expected[name].transpose(1, 2, 0).ravel()
        for index, value in enumerate(lying[:8]):
            assert f"{name}[{index}] = {value}\n" in done.stdout


@pytest.mark.parametrize(
    ("options", "more", "reason", "remedy"),
    [
        ("{scheme: affine, accumulate: running}", "", "`accumulate`", "remove `accumulate`"),
        ("{scheme: affine, unsigned: never}", "", "`unsigned`", "power_of_two"),
        ("{precision: int8}", "calibration: {corrections: [adaround]}\n", "adaround", "scheme: affine"),
    ],
)
def test_what_the_scheme_does_not_take(tmp_path: Path, options: str, more: str, reason: str, remedy: str) -> None:
    with pytest.raises(RecipeError, match=reason) as caught:
        built(tmp_path, options, more)
    assert remedy in str(caught.value.remedy)
