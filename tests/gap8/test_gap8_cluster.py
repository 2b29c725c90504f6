"""Layers in tiles: the same values as the definition's, under a port that is strict about transfers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.errors import ToolError
from nnkit.program import Fixed, Program, Window, macs
from nnkit.target import RunResult
from nnkit_gap8.cluster.build import TILES_BYTES
from nnkit_gap8.cluster.tile_plan import TilePlan
from nnkit_gap8.runners import HostRunner, Rv32Runner, execute_on_host
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import S8, S16, U8
from tests.c.fixed.random_ops import Random, everything
from tests.gap8.artifacts import has, random_inputs
from tests.gap8.clusters import cluster_options, write_cluster_artifact

needs_rv32 = pytest.mark.skipif(
    not (has("riscv64-unknown-elf-gcc") and has("qemu-system-riscv32")), reason="no rv32 compiler or emulator"
)


def tiled_layers(seed: int) -> Program:
    """Every kind of layer with kernels for tiles, of a size that takes several tiles of a few KiB."""
    r = Random(seed)
    for x, y, bits in ((S16, S16, 16), (S8, S8, 8), (U8, U8, 8), (U8, S16, 16), (S8, S16, 8), (S16, S8, 8)):
        for window, size in (
            (Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), (5, 13, 14)),
            (Window(1, 1), (6, 11, 9)),
            (Window(3, 2, 2, 3, 2, 1, 2, 1, 0, 1), (3, 16, 17)),
            (Window(2, 3, 1, 1, 1, 2), (1, 9, 12)),
        ):
            r._conv(
                r.fresh(size, x),
                y,
                window,
                int(r.rng.integers(3, 21)),
                weight_bits=bits,
                leaky=bool(r.rng.integers(2)),
            )
    for fixed in (S16, S8, U8):
        r.depthwise(fixed, fixed)
        for kind in ("max", "average"):
            r.pool(fixed, kind)
            r.fused(fixed, fixed, kind)
        r.lookup(fixed, fixed)
    r.elementwise("add", S16, S16, S16)
    r.elementwise("mul", S8, S8, S8)
    return r.program()


def compare(
    program: Program, artifact: Path, runner: HostRunner | Rv32Runner, seeds: tuple[int, ...] = (0, 1)
) -> None:
    inputs = [random_inputs(program, seed, extreme=bool(seed)) for seed in seeds]
    compare_results(program, inputs, [runner.run(artifact, program, inputs, trace=True)])


def compare_results(
    program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]], runs: Sequence[Sequence[RunResult]]
) -> None:
    """Every tensor of every run on the same inputs, with the definition's."""
    for index, sample in enumerate(inputs):
        expected = plain_reference.run(program, sample)
        for run in runs:
            for op in program.ops:
                np.testing.assert_array_equal(run[index].tensors[op.output], expected[op.output], err_msg=op.name)


@pytest.mark.parametrize("l1_bytes", [4 << 10, 48 << 10])
def test_every_layer_with_tiles(l1_bytes: int, tmp_path: Path) -> None:
    program = tiled_layers(3)
    tiles = write_cluster_artifact(program, tmp_path, cluster_options(l1_bytes))
    if l1_bytes == 4 << 10:
        assert sum(tiling.tiles > 3 for tiling in tiles.steps.values()) > 8
    assert TILES_BYTES + tiles.l1_bytes <= l1_bytes
    inputs = [random_inputs(program, 0)]
    binary = HostRunner(flags=("-O0", "-fsanitize=address,undefined")).compile(tmp_path, tmp_path, trace=True)
    runs = [execute_on_host(binary, tmp_path, program, inputs, parts=parts, trace=True) for parts in (8, 5, 1)]
    compare_results(program, inputs, runs)


def test_every_operator_beside_them(tmp_path: Path) -> None:
    """With the steps as a table, whose C takes no warning either."""
    program = everything(5)
    tiles = write_cluster_artifact(program, tmp_path, cluster_options(), as_table=True)
    assert tiles.untiled
    assert tiles.steps
    assert "static const struct step steps[]" in (tmp_path / "net.c").read_text()
    compare(program, tmp_path, HostRunner(flags=("-O0", "-Wall", "-Wextra", "-Wconversion", "-Werror")))


def test_parts_share_nothing(tmp_path: Path) -> None:
    program = tiled_layers(4)
    write_cluster_artifact(program, tmp_path, cluster_options(6 << 10))
    flags = ("-O0", "-g", "-fsanitize=thread", "-pthread", "-DNNKIT_HOST_THREADS")
    compare(program, tmp_path, HostRunner(parts=4, flags=flags), (0,))


@needs_rv32
def test_the_same_on_rv32_within_its_l1(tmp_path: Path) -> None:
    program = tiled_layers(5)
    write_cluster_artifact(program, tmp_path, cluster_options(8 << 10))
    compare(program, tmp_path, Rv32Runner())


@needs_rv32
def test_sums_stay_in_registers_on_rv32(tmp_path: Path) -> None:
    """A product takes two instructions and half a load; a spilled sum or pointer adds two to a group of them."""
    r = Random(7)
    for fixed in (S16, S8):
        window = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
        r._conv(r.fresh((64, 8, 8), fixed), fixed, window, 16, weight_bits=fixed.bits, leaky=False)
    program = r.program()
    write_cluster_artifact(program, tmp_path, cluster_options())
    result = Rv32Runner().run(tmp_path, program, [random_inputs(program, 0)], trace=False)[0]
    for op, most in zip(program.ops, (3.0, 2.9), strict=True):
        assert result.instructions_by_layer[op.name] / macs(op, program) <= most, op.name


def _layers(fixed: Fixed) -> Program:
    r = Random(6)
    r._conv(r.fresh((8, 24, 24), fixed), fixed, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), 16, weight_bits=fixed.bits)
    r.fused(fixed, fixed, "max")
    return r.program()


def _broken(tmp_path: Path, edits: tuple[tuple[str, str, str], ...]) -> tuple[Program, TilePlan]:
    program = _layers(S16)
    tiles = write_cluster_artifact(program, tmp_path, cluster_options(6 << 10))
    compare(program, tmp_path, HostRunner(parts=4, flags=("-O0",)), (0,))
    for file, old, new in edits:
        text = (tmp_path / file).read_text()
        assert old in text
        (tmp_path / file).write_text(text.replace(old, new))
    return program, tiles


WAIT_FOR_LOADS = "if (tiles->loading[i] >= 0) nnkit_dma_wait(tiles->port, tiles->loading[i]);"


def test_a_wait_that_is_missing_is_caught(tmp_path: Path) -> None:
    program, _ = _broken(tmp_path, (("nnkit_tiles.c", WAIT_FOR_LOADS, ""),))
    with pytest.raises(ToolError, match="transfer: "):
        compare(program, tmp_path, HostRunner(parts=4, flags=("-O0",)), (0,))


def test_an_output_that_is_not_waited_for_is_caught(tmp_path: Path) -> None:
    program, _ = _broken(tmp_path, (("nnkit_tiles.c", "nnkit_dma_wait(tiles->port, tiles->storing[turn]);", ";"),))
    with pytest.raises(ToolError, match="transfer: "):
        compare(program, tmp_path, HostRunner(parts=4, flags=("-O0",)), (0,))


def test_half_of_a_double_buffer_is_caught(tmp_path: Path) -> None:
    program, tiles = _broken(tmp_path, ())
    tiling = next(t for t in tiles.steps.values() if t.layout.outputs[0] != t.layout.outputs[1])
    first, second = tiling.layout.outputs
    text = (tmp_path / "net.c").read_text()
    place = f"{{{first}, {second}}}"
    assert place in text
    (tmp_path / "net.c").write_text(text.replace(place, f"{{{first}, {first}}}"))
    with pytest.raises(ToolError, match="transfer: "):
        compare(program, tmp_path, HostRunner(parts=4, flags=("-O0",)), (0,))


def test_a_barrier_that_is_missing_is_caught(tmp_path: Path) -> None:
    """Without the join between the image and the convolution, a part reads what another has not written yet."""
    program, _ = _broken(tmp_path, ())
    text = (tmp_path / "net.c").read_text()
    image = "if (tiles->fresh) NNKIT_RUN(context, net_image_s16_s16, &tiles->image_task);"
    convolution = "NNKIT_RUN(context, net_conv_packed_s16_s16, &tiles->task);"
    assert image in text
    assert convolution in text
    together = (
        "{ nnkit_i32 k; for (k = 0; k < context->parts; ++k) {"
        " if (tiles->fresh) net_image_s16_s16(&tiles->image_task, k, context->parts);"
        " net_conv_packed_s16_s16(&tiles->task, k, context->parts); } }"
    )
    (tmp_path / "net.c").write_text(text.replace(image, "").replace(convolution, together))
    with pytest.raises(AssertionError):
        compare(program, tmp_path, HostRunner(parts=4, flags=("-O0",)), (0,))
