"""The affine scheme on the cluster: equal to the simulator in every value, however the tiles are cut and shared."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ansi_c_library import SANITIZERS
from random_affine_ops import RandomOps

from nnkit.c.fixed.machine import CoreMachine
from nnkit.errors import ToolError
from nnkit.memory.plan import Region
from nnkit.program import Window
from nnkit.program.affine import AffineAdd, AffineConv, AffinePool, AffineProgram, AffineTensor, Requantize
from nnkit.program.formats import Affine
from nnkit.program.inputs import stress_inputs
from nnkit.runner import Runner
from nnkit.simulate import simulate
from nnkit_gap8.affine.cluster import TILES_BYTES, AffineCluster
from nnkit_gap8.affine.emit import emit_affine_artifact
from nnkit_gap8.affine.plan import AFFINE_STACK_BYTES, AffinePlan, affine_plan
from nnkit_gap8.emit import CONTEXT_BYTES
from nnkit_gap8.gvsoc_runner import GvsocRunner
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.runners import HostRunner, Rv32Runner, execute_on_host
from tests.gap8.artifacts import DIALECTS, compile_only, has, sources
from tests.gap8.test_gap8_compilers import STUB

needs_rv32 = pytest.mark.skipif(
    not (has("riscv64-unknown-elf-gcc") and has("qemu-system-riscv32")), reason="no rv32 compiler or emulator"
)
needs_gvsoc = pytest.mark.skipif(
    GvsocRunner().missing() is not None, reason=f"CI cannot install it: {GvsocRunner().missing()}"
)


def planned(program: AffineProgram, l1_bytes: int, l2_bytes: int = 1 << 20) -> AffinePlan:
    regions = Region("l1", l1_bytes), Region("l2", l2_bytes), Region("l3", 8 << 20)
    machine = MemoryMachine(*regions, context_bytes=CONTEXT_BYTES, stack_bytes=AFFINE_STACK_BYTES)
    return affine_plan(program, machine, None, cluster=AffineCluster(program, CoreMachine(8, l1_bytes)))


def written(plan: AffinePlan, folder: Path) -> Path:
    for path, content in emit_affine_artifact(plan).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def check(program: AffineProgram, artifact: Path, runner: Runner, samples: int = 2) -> None:
    given = stress_inputs(program, samples)
    traced = not isinstance(runner, GvsocRunner)
    for values, result in zip(given, runner.run(artifact, program, given, trace=traced), strict=True):
        expected = simulate(program, values)
        for op in program.ops if traced else ():
            assert np.array_equal(result.tensors[op.output], expected[op.output]), f"{runner.name}: {op.name}"
        for name in program.outputs:
            assert np.array_equal(result.outputs[name], expected[name]), name


def drawn(seed: int) -> AffineProgram:
    """Layers of every kind that has tiles or parts, and some that have neither, of 8 and of 16 bits."""
    draw = RandomOps(seed)
    for bits in (8, 16):
        draw.conv(bits=bits)
        draw.conv(bits=bits, depthwise=True)
        draw.conv(bits=bits, transposed=True)
        draw.conv(bits=bits, depthwise=True, slopes=True)
        draw.pool("max", bits=bits)
        draw.pool("average", bits=bits)
        draw.add(bits=bits)
        draw.mul(by_channel=True, bits=bits)
        draw.activation(bits=bits)
        draw.lookup(bits=bits)
    draw.concat()
    draw.move("pad")
    return draw.program("net")


def network(seed: int) -> AffineProgram:
    """One layer behind the other; convolutions with padding, strides and odd numbers of channels."""
    draw = RandomOps(seed)
    x = draw._input((3, 19, 18), 8)

    def conv(source: AffineTensor, outputs: int, window: Window, *, depthwise: bool = False) -> AffineTensor:
        channels, height, width = source.shape
        output = draw._tensor((outputs, *window.output_hw(height, width)), 8)
        per_group = 1 if depthwise else channels
        weight = draw.rng.integers(-127, 128, (outputs, per_group, window.kernel_h, window.kernel_w)).astype(np.int8)
        form = Affine(8, (0.01,) * outputs, (0,) * outputs, 0, signed=True)
        factors = draw.rng.uniform(0.5, 2, outputs) / (60 * np.sqrt(weight[0].size))
        draw.ops.append(
            AffineConv(
                **draw._fields((source,), output),
                weight=weight,
                weight_format=form,
                bias=draw.rng.integers(-500, 500, outputs).astype(np.int32),
                window=window,
                groups=channels if depthwise else 1,
                pad_value=source.zero_point,
                transposed=False,
                requantize=draw._stage(factors, output),
            )
        )
        return output

    same, half = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1)
    first = conv(x, 12, half)
    y = conv(conv(first, 12, same, depthwise=True), 12, Window(1, 1))
    total = draw._tensor(y.shape, 8)
    stage = Requantize(np.array([1]), np.array([20]), total.format.qmin, total.format.qmax)
    draw.ops.append(
        AffineAdd(**draw._fields((first, y), total), multipliers=(500_000, 600_000), requantize=stage)
    )  # fmt: skip
    y = conv(conv(total, 12, half, depthwise=True), 10, same)
    y = conv(conv(y, 10, Window(5, 5, 1, 1, 2, 1, 4, 2, 4, 2), depthwise=True), 16, Window(1, 1, 1, 1))
    pooled = draw._tensor((16, 1, 1), 8)
    whole = Window(*y.shape[1:])
    draw.ops.append(
        AffinePool(
            **draw._fields((y,), pooled),
            pool="average",
            window=whole,
            requantize=draw._stage(np.array([1 / 25]), pooled),
            count_include_pad=True,
        )
    )
    conv(pooled, 7, Window(1, 1))
    program = draw.program("net")
    return replace(program, outputs=program.outputs[-1:])


def pools(seed: int) -> AffineProgram:
    """Wide and narrow pools of signed and unsigned bytes, whose channels are whole words or not."""
    draw = RandomOps(seed)
    for _ in range(12):
        draw.pool("max")
    for signed, channels in ((True, 8), (False, 7)):
        source = draw._named((channels, 13, 21), Affine(8, (0.1,), (3,), signed=signed))
        draw.inputs.append(source.name)
        window = Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1)
        output = draw._named((channels, *window.output_hw(13, 21)), source.format)
        draw.ops.append(AffinePool(**draw._fields((source,), output), pool="max", window=window))
    return draw.program("net")


def test_pools_on_any_number_of_cores(tmp_path: Path) -> None:
    """In tiles of a few rows, whose pixels cores share."""
    program = pools(5)
    plan = planned(program, 3 << 10)
    assert plan.tiles is not None
    assert not plan.tiles.untiled
    assert any(tiling.tiles > 1 and tiling.rows < 8 for tiling in plan.tiles.steps.values())
    artifact, runner = written(plan, tmp_path / "artifact"), HostRunner(flags=("-O0", *SANITIZERS))
    binary = runner.compile(artifact, tmp_path, trace=True)
    given = stress_inputs(program, 1)
    expected = [simulate(program, values) for values in given]
    for parts in (1, 3, 8):
        for result, values in zip(
            execute_on_host(binary, artifact, program, given, parts=parts, trace=True), expected, strict=True
        ):
            assert all(np.array_equal(result.tensors[op.output], values[op.output]) for op in program.ops), parts


def test_any_number_of_cores_gives_the_same_values(tmp_path: Path) -> None:
    """Under a port that is strict about transfers, with tiles of a few rows or channels."""
    program = network(1)
    plan = planned(program, 4 << 10)
    assert plan.tiles is not None
    assert not plan.tiles.untiled
    assert max(tiling.tiles for tiling in plan.tiles.steps.values()) >= 3
    assert TILES_BYTES + plan.tiles.l1_bytes <= 4 << 10
    artifact, runner = written(plan, tmp_path / "artifact"), HostRunner(flags=("-O0", *SANITIZERS))
    binary = runner.compile(artifact, tmp_path, trace=True)
    given = stress_inputs(program, 2)
    expected = [simulate(program, values) for values in given]
    for parts in range(1, 9):
        results = execute_on_host(binary, artifact, program, given, parts=parts, trace=True)
        for result, values in zip(results, expected, strict=True):
            assert all(np.array_equal(result.tensors[op.output], values[op.output]) for op in program.ops), parts


def test_every_kind_of_layer_on_the_host(tmp_path: Path) -> None:
    """Those whose smallest tile is too large run on L2."""
    program = drawn(4)
    plan = planned(program, 3 << 10)
    assert plan.tiles is not None
    assert sum("smallest tile" in reason for reason in plan.tiles.untiled.values()) > 2
    check(program, written(plan, tmp_path), HostRunner(flags=("-O0", *SANITIZERS), parts=5))


def upsampling(seed: int) -> AffineProgram:
    """Transposed convolutions, whose rows tiles write between others': of 8 and of 16 bits, one with several tiles
    across its channels."""
    draw = RandomOps(seed)

    def layer(inputs: int, outputs: int, window: Window, bits: int) -> None:
        source = draw._input((inputs, 4, 6), bits)
        height, width = (3 * window.stride_h + window.span_h, 5 * window.stride_w + window.span_w)
        output = draw._tensor((outputs, height - 2 * window.pad_top, width - 2 * window.pad_left), bits)
        weight = draw.rng.integers(-100, 101, (inputs, outputs, window.kernel_h, window.kernel_w)).astype(np.int8)
        zeros = tuple(int(zero) for zero in draw.rng.integers(-9, 10, outputs))
        factors = draw.rng.uniform(0.0005, 0.002, outputs) / (1 if bits == 8 else 64)
        draw.ops.append(
            AffineConv(
                **draw._fields((source,), output),
                weight=weight,
                weight_format=Affine(8, (0.01,) * outputs, zeros, 1, signed=True),
                bias=draw.rng.integers(-500, 500, outputs).astype(np.int32),
                window=window,
                groups=1,
                pad_value=source.zero_point,
                transposed=True,
                requantize=draw._stage(factors, output),
            )
        )

    layer(9, 12, Window(2, 2, 2, 2), 8)
    layer(6, 8, Window(4, 4, 2, 2, 1, 1, 1, 1, 1, 1), 8)
    layer(3, 5, Window(2, 3, 3, 3), 8)  # of its rows one in three has no tap
    layer(3, 4, Window(2, 2, 2, 2), 16)
    return draw.program("net")


def test_transposed_convolutions_in_tiles(tmp_path: Path) -> None:
    program = upsampling(7)
    plan = planned(program, (2 << 10) + 512)
    assert plan.tiles is not None
    assert not plan.tiles.untiled
    assert any(tiling.channels < tiling.op.channels for tiling in plan.tiles.steps.values())
    assert any(tiling.tiles > 1 and tiling.channels == tiling.op.channels for tiling in plan.tiles.steps.values())
    check(program, written(plan, tmp_path), HostRunner(flags=("-O0",), parts=3))


def test_parts_share_nothing(tmp_path: Path) -> None:
    """As threads, under the thread sanitizer: tiles, images, planes, and layers on L2."""
    flags = ("-O0", "-g", "-fsanitize=thread", "-pthread", "-DNNKIT_HOST_THREADS")
    for name, program, l1_bytes in (("chain", network(5), 4 << 10), ("kinds", drawn(6), 3 << 10)):
        check(program, written(planned(program, l1_bytes), tmp_path / name), HostRunner(flags=flags, parts=4), 1)


def test_the_port_runs_the_network_through_the_sdks_calls(tmp_path: Path) -> None:
    """Cores in the wrong order, transfers and weights that come only when waited for, on an empty input."""
    program = network(6)
    written(planned(program, 4 << 10), tmp_path)
    files = [*sources(tmp_path), *sorted((tmp_path / "pmsis").glob("*.c")), STUB / "pmsis_host.c"]
    command = ["gcc", "-std=gnu99", "-g", "-no-pie", "-DSTUB_LOW_MEMORY", "-DNNKIT_PORT_PARALLEL"]
    command += [f"-I{tmp_path}", f"-I{tmp_path / 'pmsis'}", f"-I{STUB}", "-o", str(tmp_path / "app")]
    subprocess.run([*command, *map(str, files)], check=True)
    done = subprocess.run([str(tmp_path / "app")], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = simulate(program, {n: np.zeros(program.tensors[n].shape, np.int64) for n in program.inputs})
    (name,) = program.outputs
    assert expected[name].size == 7
    for index, value in enumerate(expected[name].ravel()):
        assert f"{name}[{index}] = {value}\n" in done.stdout


def dilated_in_place() -> AffineProgram:
    """A depthwise layer whose tiles load rows that no tap of theirs reads, and whose output may hold its input."""
    draw = RandomOps(12)
    window = Window(6, 6, 2, 2, 64, 64, 219, 318, 270, 306)
    source = draw._input((8, 3, 17), 8)
    output = draw._tensor((8, *window.output_hw(3, 17)), 8)
    weight = draw.rng.integers(-127, 128, (8, 1, 6, 6)).astype(np.int8)
    op = AffineConv(
        **draw._fields((source,), output),
        weight=weight,
        weight_format=Affine(8, (0.01,) * 8, (0,) * 8, 0, signed=True),
        bias=draw.rng.integers(-500, 500, 8).astype(np.int32),
        window=window,
        groups=8,
        pad_value=source.zero_point,
        transposed=False,
        requantize=draw._stage(np.full(8, 0.004), output),
    )
    draw.ops.append(op)
    return draw.program("net")


def test_an_output_keeps_off_rows_that_tiles_load(tmp_path: Path) -> None:
    program = dilated_in_place()
    plan = planned(program, 9 << 10)
    assert plan.tiles is not None
    assert plan.tiles.steps[0].tiles > 1
    check(program, written(plan, tmp_path), HostRunner(flags=("-O0",), parts=3))


@needs_rv32
def test_a_network_on_rv32_within_memory_and_stack(tmp_path: Path) -> None:
    program = network(2)
    plan = planned(program, 4 << 10)
    artifact = written(plan, tmp_path)
    check(program, artifact, Rv32Runner())


@needs_gvsoc
def test_a_network_on_the_simulated_cluster(tmp_path: Path) -> None:
    """By the encodings of the vector extension, of tiles that are cut and of layers on L2."""
    for number, (program, l1_bytes) in enumerate(
        [
            (network(1), 4 << 10),
            (network(3), 48 << 10),
            (drawn(4), 3 << 10),
            (upsampling(7), 3 << 10),
            (pools(5), 3 << 10),
        ]
    ):
        check(program, written(planned(program, l1_bytes), tmp_path / str(number)), GvsocRunner())


@pytest.mark.parametrize("dialect", ["gcc-c90", "clang++-c++17"])
def test_no_warning_in_any_dialect(dialect: str, tmp_path: Path) -> None:
    compiler = DIALECTS[dialect]
    if not has(compiler[0]):
        pytest.skip(f"no {compiler[0]}")
    artifact = written(planned(network(1), 4 << 10), tmp_path / "artifact")
    files = [*sources(artifact), artifact / "host/nnkit_port_host.c", artifact / "host/main.c"]
    command = (*compiler, "-O0", "-DNNKIT_TRACE", "-DNNKIT_PORT_PARALLEL")
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    assert compile_only(command, files, [artifact, artifact / "host"], tmp_path, flags) == ""


WAITS = {
    "a wait": "if (tiles->loading[i] >= 0) nnkit_dma_wait(tiles->port, tiles->loading[i]);",
    "an output's wait": "nnkit_dma_wait(tiles->port, tiles->storing[turn]);",
    "a table's wait": "if (table >= 0) nnkit_dma_wait(port, table);",
}


@pytest.mark.parametrize("broken", [*WAITS, "a buffer"])
def test_a_broken_schedule_is_caught(broken: str, tmp_path: Path) -> None:
    program = network(1)
    artifact = written(planned(program, 4 << 10), tmp_path)
    if broken in WAITS:
        tiles = artifact / "nnkit_affine_tiles.c"
        text = tiles.read_text()
        assert WAITS[broken] in text
        tiles.write_text(text.replace(WAITS[broken], "(void)0;"))
    else:
        code = artifact / "net.c"
        text = code.read_text()
        code.write_text(
            re.sub(
                r"\{(\d+), (\d+)\}(, +/\* in L1)",
                r"{\1, \1}\3",
                re.sub(r", \{(\d+), \d+\},( +/\* in L1)", r", {\1, \1},\2", text),
            )
        )
    with pytest.raises(ToolError, match="transfer"):
        check(program, artifact, HostRunner(flags=("-O0",)))


def test_a_barrier_that_is_missing_is_caught(tmp_path: Path) -> None:
    """Without the join between an image and its convolution, a part reads what another has not written yet."""
    program = network(1)
    artifact = written(planned(program, 4 << 10), tmp_path)
    runner = HostRunner(flags=("-O0",), parts=4)
    check(program, artifact, runner, 1)
    code = artifact / "net.c"
    apart = re.compile(
        r"if \(tiles->fresh\) NNKIT_RUN\(context, (\w+), &tiles->image_task\);\s+"
        r"nnkit_affine_tiles_ahead\(tiles\);\s+NNKIT_RUN\(context, (\w+), &tiles->task\);"
    )
    together = (
        r"{ nnkit_i32 k; for (k = 0; k < context->parts; ++k) { if (tiles->fresh) "
        r"\1(&tiles->image_task, k, context->parts); \2(&tiles->task, k, context->parts); } } "
        r"nnkit_affine_tiles_ahead(tiles);"
    )
    text, count = apart.subn(together, code.read_text())
    assert count >= 3
    code.write_text(text)
    with pytest.raises(AssertionError):
        check(program, artifact, runner, 1)
