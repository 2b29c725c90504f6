"""Every generated kernel against plain integer loops, under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnkit.program import Program, Window
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.runners import HostRunner, execute_on_host
from tests.gap8 import plain_reference
from tests.gap8.programs import S8, S16, U8, U16, naive_plan, random_values
from tests.gap8.random_ops import SIGNED, TYPES, Random

SANITIZE = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


def write(program: Program, folder: Path, *, blocks_per_chunk: int | None = None, cores: int = 8) -> Path:
    """The artifact of a program under the plan without reuse."""
    for name, content in emit_artifact(program, naive_plan(program, cores, blocks_per_chunk), cores=cores).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def check(program: Program, folder: Path, *, parts: tuple[int, ...] = (1, 3, 8), seed: int = 0) -> None:
    """Run on random and on extreme inputs with several numbers of parts; every tensor must be right."""
    rng = np.random.default_rng(seed)
    inputs = [
        {name: random_values(rng, program.tensors[name], extreme) for name in program.inputs}
        for extreme in (False, True)
    ]
    expected = [plain_reference.run(program, sample) for sample in inputs]
    assert_telling(program, expected)
    binary = HostRunner("gcc", SANITIZE).compile(folder, folder, trace=True)
    for count in parts:
        results = execute_on_host(binary, folder, program, inputs, parts=count, trace=True)
        for sample, result in zip(expected, results, strict=True):
            for op in program.ops:
                np.testing.assert_array_equal(
                    result.tensors[op.output], sample[op.output], err_msg=f"{op.name} with {count} parts"
                )
            for name in program.outputs:
                np.testing.assert_array_equal(result.outputs[name], sample[name])


def assert_telling(program: Program, expected: list[dict[str, plain_reference.Values]]) -> None:
    """The expected values must not hide errors: most differ, few are at the ends of the range."""
    everything = 0
    at_ends = 0
    for op in program.ops:
        values = np.concatenate([sample[op.output].ravel() for sample in expected])
        fixed = program.tensors[op.output].fixed
        everything += values.size
        at_ends += int(np.count_nonzero((values == fixed.qmin) | (values == fixed.qmax)))
        assert values.size < 64 or np.unique(values).size > 2, op.name
    assert at_ends < 0.75 * everything


def dense(r: Random) -> None:
    for x in TYPES:
        for bits in (8, 16):
            y = r.pick(*TYPES)
            r.conv(x, y, weight_bits=bits, padded_value=True)
            r.pointwise(x, y, weight_bits=bits, clip=True)
    r.full_window(S16, S16)
    r.full_window(U8, S8, weight_bits=8)


def one_pixel_and_small(r: Random) -> None:
    for shape in ((1, 1, 1), (5, 1, 1), (3, 1, 7), (4, 5, 1), (2, 3, 3), (7, 2, 2)):
        x = r.fresh(shape, S16)
        r._conv(x, S16, Window(1, 1), r.size(1, 9))
        x = r.fresh(shape, S16)
        r._conv(x, S16, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), r.size(1, 9))
        x = r.fresh(shape, U8)
        r._conv(x, U8, Window(3, 2, 2, 3, 1, 1, 2, 0, 0, 1), r.size(1, 9), weight_bits=8)


def running(r: Random) -> None:
    for x in TYPES:
        y = r.pick(*SIGNED)
        r.conv(x, y, accumulate="running", padded_value=True)
        r.pointwise(x, y, accumulate="running", clip=True)
    r.full_window(S16, S16, accumulate="running")
    r.grouped(S16, S16, accumulate="running")
    r.depthwise(S16, S16, accumulate="running")
    r.conv(S16, S16, accumulate="running", leaky=True)
    r.fused(S16, S16, "max", accumulate="running")


def leaky(r: Random) -> None:
    for y in SIGNED:
        r.conv(S16, y, leaky=True)
        r.pointwise(U8, y, leaky=True, weight_bits=8)
        r.pointwise(S8, y, leaky=True, clip=True)
        r.depthwise(S8, y, leaky=True)
        r.depthwise(S16, y, leaky=True, accumulate="running")
        r.transposed(S16, y, leaky=True)
        r.grouped(S16, y, leaky=True)
        for kind in ("add", "mul", "activation"):
            r.elementwise(kind, S16, S8, y, leaky=True)


def wide_accumulators(r: Random) -> None:
    for x in (S16, U16):
        r.conv(x, S16, accumulator="int64", padded_value=True)
        r.pointwise(x, U16, accumulator="int64")
        r.depthwise(x, S16, accumulator="int64")
        r.transposed(x, S16, accumulator="int64")
        r.pointwise(x, S8, accumulator="int64", leaky=True)
        r.depthwise(x, S16, accumulator="int64", leaky=True)
        for kind in ("add", "mul", "activation"):
            r.elementwise(kind, x, U16, S16, acc="int64")
            r.elementwise(kind, x, S16, S16, acc="int64", leaky=True)
    r.fused(S16, S16, "max", accumulator="int64")


def grouped_and_depthwise(r: Random) -> None:
    for x in TYPES:
        r.grouped(x, r.pick(*TYPES), weight_bits=r.pick(8, 16))
        r.depthwise(x, r.pick(*TYPES), weight_bits=r.pick(8, 16), padded_value=True)
        r.depthwise(x, S16, clip=True)


def fused_pools(r: Random) -> None:
    for kind in ("max", "average"):
        for x, y in ((S16, S16), (U8, S8), (S16, U16)):
            r.fused(x, y, kind)
            r.fused(x, y, kind, shape="pointwise")
            r.fused(x, y, kind, shape="depthwise", clip=True)
    r.fused(S16, S16, "max", leaky=True)


def transposed(r: Random) -> None:
    for x in TYPES:
        for _ in range(3):
            r.transposed(x, r.pick(*TYPES))


def pools(r: Random) -> None:
    for fixed in TYPES:
        r.pool(fixed, "max")
        r.pool(fixed, "max", narrow=True)
        r.pool(fixed, "average")
        r.pool(fixed, "average", by_count=True)
        r.pool(fixed, "average", narrow=True)


def elementwise(r: Random) -> None:
    for kind in ("add", "mul", "activation"):
        for x in TYPES:
            r.elementwise(kind, x, r.pick(*TYPES), r.pick(*TYPES))
            r.elementwise(kind, x, x, x)
    for fixed in TYPES:
        r.moves(fixed)


SUITES: tuple[Callable[[Random], None], ...] = (
    dense,
    one_pixel_and_small,
    running,
    leaky,
    wide_accumulators,
    grouped_and_depthwise,
    fused_pools,
    transposed,
    pools,
    elementwise,
)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_kernels_equal_plain_loops(suite: Callable[[Random], None], tmp_path: Path) -> None:
    r = Random(len(suite.__name__))
    suite(r)
    program = r.program()
    check(program, write(program, tmp_path))


@pytest.mark.parametrize("blocks", [1, 2])
def test_weights_in_chunks(blocks: int, tmp_path: Path) -> None:
    r = Random(blocks)
    for _ in range(2):
        r.conv(S16, S16)
        r.pointwise(S16, S16)
        r.grouped(S16, S16)
        r.depthwise(S16, S16)
        r.transposed(S16, S16)
        r.fused(S16, S16, "max")
    program = r.program()
    check(program, write(program, tmp_path, blocks_per_chunk=blocks))


def test_every_number_of_parts(tmp_path: Path) -> None:
    r = Random(11)
    r.conv(S16, S16)
    r.pointwise(S16, S16)
    r.depthwise(S16, S16)
    r.transposed(S16, S16)
    r.fused(S16, S16, "max")
    r.pool(S16, "average")
    r.elementwise("add", S16, S16, S16)
    program = r.program()
    check(program, write(program, tmp_path), parts=(1, 2, 3, 4, 5, 6, 7, 8))


def test_scratch_for_fewer_cores_limits_the_parts(tmp_path: Path) -> None:
    """The plan has scratch for two parts: a context that asks for more must not use more."""
    r = Random(12)
    r.conv(S16, S16)
    r.fused(S16, S16, "max")
    program = r.program()
    check(program, write(program, tmp_path, cores=2), parts=(1, 2, 8))


def test_single_pixels_and_narrow_bands_where_l1_is_small(tmp_path: Path) -> None:
    """1000 bytes hold neither four gathered pixels of 216 taps nor a whole depthwise plane."""
    r = Random(13)
    r._conv(r.fresh((24, 5, 6), S16), S16, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), 6)
    for window in (Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), Window(3, 3, 2, 2, 1, 1, 1, 0, 0, 1)):
        r._conv(r.fresh((5, 23, 14), S16), S16, window, 5, groups=5)
    program = r.program()
    plan = naive_plan(program, 2, l1_bytes=1000)
    assert plan.regions["l1"].peak_bytes <= 1000
    for path, content in emit_artifact(program, plan, cores=2, l1_bytes=1000).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    check(program, tmp_path, parts=(1, 2))


@pytest.mark.parametrize("fixed", [S8, U8, S16, U16], ids=str)
def test_a_global_average_that_needs_a_64_bit_sum(fixed: object, tmp_path: Path) -> None:
    """The sum of 65536 taps of 16 bits does not fit 32 bits."""
    from nnkit.program import Fixed, Pool

    assert isinstance(fixed, Fixed)
    r = Random(14)
    name = r.fresh((1, 256, 264), fixed)
    window = Window(256, 264)
    output = r.builder.tensor(r.output(), (1, 1, 1), fixed)
    r.builder.ops.append(
        Pool(
            name="gap",
            inputs=(name,),
            output=output,
            pool="average",
            window=window,
            multiplier=(1 << 30) // (256 * 264),
            shift=30,
            clip_min=fixed.qmin,
            clip_max=fixed.qmax,
        )
    )
    program = r.program()
    folder = write(program, tmp_path)
    values = np.full((1, 256, 264), fixed.qmax)
    result = HostRunner("gcc", SANITIZE).run(folder, program, [{name: values}], trace=False)[0]
    expected = plain_reference.norm(fixed.qmax * 256 * 264 * ((1 << 30) // (256 * 264)), 30)
    assert result.outputs[output].item() == expected
