"""Layers in stripes of rows: the values of plain loops, weights stored once, the cheapest choice under a budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_builder import ProgramBuilder

from nnkit.errors import DoesNotFitError, InternalError
from nnkit.memory.checker import check_plan
from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    Fixed,
    FusedPool,
    OutputStage,
    Pool,
    Program,
    Tensor,
    Window,
    macs,
)
from nnkit.simulate import simulate
from nnkit_gap8.checked_plan import checked_plan, loads_of, memory_machine
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.code_choice import steps_form, with_code_told
from nnkit_gap8.code_size import code_bytes
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.options import Gap8Memory, Gap8Options
from nnkit_gap8.runners import HostRunner, Rv32Runner
from nnkit_gap8.stripe_search import with_stripes
from nnkit_gap8.stripes import Segment, cuts, entry_of, in_stripes, segment_program
from tests.c.fixed import plain_reference
from tests.c.fixed.kernel_check import needs_gcc
from tests.c.fixed.programs import S8, S16, Builder, conv, random_values
from tests.gap8.artifacts import write_artifact


def striped(program: Program, options: Gap8Options) -> Program:
    return with_stripes(
        program,
        options.stripes,
        lambda: memory_machine(options),
        lambda part: loads_of(part, options),
        lambda candidate: checked_plan(candidate, options),
    )


def limited(l2_bytes: int, **options: object) -> Gap8Options:
    return Gap8Options.model_validate({"memory": {"l2": l2_bytes}, **options})


class Layers:
    """A chain of layers with random weights, each added to the last."""

    def __init__(self, seed: int, channels: int, height: int, width: int, form: Fixed = S16) -> None:
        self.rng, self.builder, self.form = np.random.default_rng(seed), Builder(), form
        self.last = self.builder.input("x", (channels, height, width), form)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.builder.tensors[self.last].shape

    def name(self) -> str:
        return f"v{len(self.builder.ops)}"

    def conv(
        self, channels: int, window: Window, *, pool: FusedPool | None = None, source: str = "", groups: int = 1
    ) -> str:
        x = source or self.last
        _, height, width = self.builder.tensors[x].shape
        hw = window.output_hw(height, width)
        self.last = conv(
            self.rng, self.builder, x, self.name(), channels, self.form, window, groups=groups, pool=pool,
            weight_bits=self.form.bits, output_hw=hw if pool is None else pool.window.output_hw(*hw), clip=True,
        )  # fmt: skip
        return self.last

    def fire(self, squeezed: int, expanded: int) -> None:
        squeeze = self.conv(squeezed, Window(1, 1))
        parts = self.conv(expanded, Window(1, 1)), self.conv(expanded, same(3), source=squeeze)
        output = self.builder.tensor(self.name(), (2 * expanded, *self.shape[1:]), self.form)
        self.builder.ops.append(Concat(name=f"{output}_layer", inputs=parts, output=output, shifts=(0, 0)))
        self.last = output

    def residual(self) -> None:
        x = self.last
        y = self.conv(self.shape[0], same(3))
        output = self.builder.tensor(self.name(), self.shape, self.form)
        stage = OutputStage(1, self.form.qmin, self.form.qmax)
        self.builder.ops.append(Add(name=f"{output}_layer", inputs=(x, y), output=output, shifts=(0, 0), stage=stage))
        self.last = output

    def pool(self, window: Window) -> None:
        output = self.builder.tensor(self.name(), (self.shape[0], *window.output_hw(*self.shape[1:])), self.form)
        x, self.last = self.last, output
        self.builder.ops.append(
            Pool(name=f"{output}_layer", inputs=(x,), output=output, pool="max", window=window,
                 clip_min=self.form.qmin, clip_max=self.form.qmax)
        )  # fmt: skip

    def activation(self) -> None:
        output = self.builder.tensor(self.name(), self.shape, self.form)
        x, self.last = self.last, output
        self.builder.ops.append(
            Activation(name=f"{output}_layer", inputs=(x,), output=output, stage=OutputStage(1, 0, self.form.qmax))
        )

    def program(self) -> Program:
        return self.builder.program(self.last)


def same(kernel: int, stride: int = 1) -> Window:
    half = kernel // 2
    return Window(kernel, kernel, stride, stride, 1, 1, half, half, half, half)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Program, int, int, int]:
    """Layers with windows, strides, dilations, pools, branches; a first and a last cut, a number of stripes."""
    sides = draw(st.integers(8, 13)), draw(st.integers(5, 8))
    layers = Layers(draw(st.integers(0, 999)), draw(st.integers(1, 3)), *sides, draw(st.sampled_from([S8, S16])))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(["conv", "pooled", "depthwise", "fire", "residual", "pool", "activation", "dilated"])
        )
        channels, height, width = layers.shape
        if kind == "conv":
            layers.conv(draw(st.integers(1, 4)), same(3, draw(st.integers(1, 2))))
        elif kind == "dilated" and min(height, width) > 4:
            layers.conv(2, Window(2, 3, 1, 1, 2, 2, draw(st.integers(0, 1)), 2, draw(st.integers(0, 1)), 2))
        elif kind == "pooled" and min(height, width) > 4:
            pool = Window(3, 3, 2, 2, 1, 1, draw(st.integers(0, 1)), 1, draw(st.integers(0, 1)), 1)
            layers.conv(3, same(3), pool=FusedPool(draw(st.sampled_from(["max", "average"])), pool, 7, 6))
        elif kind == "depthwise":
            layers.conv(channels, same(3), groups=channels)
        elif kind == "fire":
            layers.fire(2, 3)
        elif kind == "residual":
            layers.residual()
        elif kind == "pool" and min(height, width) > 4:
            layers.pool(Window(3, 2, 2, 2, 1, 1, draw(st.integers(0, 1)), 0, 0, 0))
        elif kind == "activation":
            layers.activation()
    layers.conv(2, Window(1, 1))
    program = layers.program()
    ends = [*cuts(program), len(program.ops)]
    last = draw(st.integers(1, len(ends) - 1))
    rows = program.tensors[entry_of(program, ends[last])].shape[1]
    return (
        program,
        ends[draw(st.integers(0, last - 1))],
        ends[last],
        draw(st.integers(2, 4).map(lambda n: min(n, rows))),
    )


@settings(max_examples=40)
@given(chains())
def test_every_value_is_that_of_plain_loops(case: tuple[Program, int, int, int]) -> None:
    program, first, last, count = case
    made = in_stripes(program, [Segment(first, last, count)])
    x = {"x": random_values(np.random.default_rng(3), program.tensors["x"])}
    expected, found = plain_reference.run(program, x), simulate(made, x)
    whole = [name for name in program.tensors if name in made.tensors]
    assert entry_of(program, last) in whole
    for name in whole:
        np.testing.assert_array_equal(found[name], expected[name])


def head() -> Program:
    """Wide layers of 32 rows, narrow ones behind them: 3 channels -> 32 -> 4 -> Fire -> 4."""
    layers = Layers(5, 3, 32, 16)
    layers.conv(32, same(3))
    layers.fire(4, 16)
    layers.conv(4, Window(1, 1))
    layers.pool(Window(2, 2, 2, 2))
    layers.conv(8, same(3))
    return layers.program()


@needs_gcc
def test_the_c_computes_the_same_in_less(tmp_path: Path) -> None:
    program, options = head(), limited(20_000)
    with pytest.raises(DoesNotFitError):
        checked_plan(program, options)
    made = striped(program, options)
    plan = checked_plan(made, options)
    assert plan.regions["l2"].peak_bytes <= 20_000
    x = {"x": random_values(np.random.default_rng(1), program.tensors["x"])}
    expected = plain_reference.run(program, x)
    folder = write_artifact(made, tmp_path, plan)
    (result,) = HostRunner(flags=("-O0", "-fsanitize=address,undefined")).run(folder, made, [x], trace=False)
    np.testing.assert_array_equal(result.outputs[program.outputs[0]], expected[program.outputs[0]])


def test_stripes_store_their_weights_once() -> None:
    program = head()
    made = in_stripes(program, [Segment(0, cuts(program)[3], 3)])
    options = Gap8Options()
    assert checked_plan(made, options).l3_weight_bytes == checked_plan(program, options).l3_weight_bytes


def test_other_weights_at_the_same_place_are_refused() -> None:
    net = ProgramBuilder()
    x = net.conv(net.conv(net.input(4, 8, 8), 4, name="one"), 4, name="two")
    other = net.build(x)
    one, two = other.ops
    assert isinstance(one, Conv2d)
    assert isinstance(two, Conv2d)
    program = replace(other, ops=(one, replace(two, bias=one.bias)))
    plan = checked_plan(program, Gap8Options())  # of equal weights: stored once
    check_plan(program, plan)
    with pytest.raises(InternalError, match="its weights lie on those of 'one'"):
        check_plan(other, plan)
    apart = checked_plan(other, Gap8Options())
    assert apart.l3_weight_bytes == 2 * plan.l3_weight_bytes


@pytest.mark.skipif(Rv32Runner().missing() is not None, reason="no cross compiler, or no emulator")
def test_code_is_part_of_the_plan(tmp_path: Path) -> None:
    """L2 holds what is kept for code; more than that is refused, with the number that would do."""
    program = head()
    x = {"x": random_values(np.random.default_rng(1), program.tensors["x"])}
    kept = Gap8Options.model_validate({"memory": {"l2": 60_000, "code": 16_000}})
    plan = checked_plan(program, kept)
    assert plan.regions["l2"].peak_bytes == checked_plan(program, limited(44_000)).regions["l2"].peak_bytes + 16_000
    folder = write_artifact(program, tmp_path / "kept", plan)
    (result,) = Rv32Runner().run(folder, program, [x], trace=False)
    taken = result.measured["code_bytes"]
    assert 0 < taken <= 16_000
    assert taken <= code_bytes(program, plan, kept, "calls") <= 1.25 * taken
    tight = Gap8Options.model_validate({"memory": {"l2": 60_000, "code": taken - 1}})
    folder = write_artifact(program, tmp_path / "tight", checked_plan(program, tight))
    with pytest.raises(DoesNotFitError, match=r"1 more than `memory\.code`") as refusal:
        Rv32Runner().run(folder, program, [x], trace=False)
    assert f"{{code: {taken}}}" in refusal.value.remedy
    assert "`steps: table`" in refusal.value.remedy


def repeated(count: int) -> Program:
    """So many different 1x1 layers in a chain: their calls are most of the code."""
    net = ProgramBuilder()
    x = net.input(4, 4, 4)
    for index in range(count):
        x = net.conv(x, 4, name=f"layer{index}")
    return net.build(x)


def code_room(l2_bytes: int, **options: object) -> Gap8Options:
    return Gap8Options.model_validate({"memory": {"l2": l2_bytes, "code": "auto"}, "stripes": "never", **options})


def test_a_table_is_chosen_where_calls_do_not_fit() -> None:
    """Room for the calls: they are written out. Less: a table. Less than that: a refusal that names both."""
    program = repeated(30)
    roomy = code_room(64 << 10)
    plan = checked_plan(program, roomy)
    sizes = {form: code_bytes(program, plan, roomy, form) for form in ("calls", "table")}
    assert sizes["table"] < sizes["calls"] - 1000
    data = plan.regions["l2"].peak_bytes - plan.buffers["code"].size_bytes
    assert steps_form(program, plan, roomy) == "calls"
    tight = code_room(data + sizes["table"] + 200)
    told = with_code_told(program, checked_plan(program, tight), tight)
    assert steps_form(program, told, tight) == "table"
    assert any(note.startswith("the steps are a table") for note in told.notes)
    with pytest.raises(DoesNotFitError, match=r"written out as calls, at most [\d,]+ bytes as a table of steps"):
        checked_plan(program, code_room(data + sizes["table"] - 200))


@pytest.mark.skipif(Rv32Runner().missing() is not None, reason="no cross compiler, or no emulator")
def test_a_table_fits_the_room_that_was_kept(tmp_path: Path) -> None:
    program = repeated(30)
    options = code_room(64 << 10, steps="table")
    plan = checked_plan(program, options)
    folder = write_artifact(program, tmp_path, plan, as_table=True)
    (name,) = program.inputs
    x = {name: random_values(np.random.default_rng(1), program.tensors[name])}
    (result,) = Rv32Runner().run(folder, program, [x], trace=False)
    kept = plan.buffers["code"].size_bytes
    assert kept / 1.25 <= result.measured["code_bytes"] <= kept
    expected = plain_reference.run(program, x)
    np.testing.assert_array_equal(result.outputs[program.outputs[0]], expected[program.outputs[0]])


def test_stripes_share_their_parameters(tmp_path: Path) -> None:
    """Of eight: squeeze layers of 5 and of 6 rows, 1x1 of 4 rows, and 3x3 with padding above, below and nowhere."""
    program = head()
    made = in_stripes(program, [Segment(1, 5, 8)])
    text = (write_artifact(made, tmp_path, checked_plan(made, Gap8Options())) / "net.c").read_text()
    assert text.count("static const struct nnkit_conv ") == 3 + 2 + 1 + 3  # three layers stand outside


def test_what_fits_stays_whole() -> None:
    program = head()
    bound = checked_plan(program, Gap8Options()).regions["l2"].lower_bound_bytes
    assert striped(program, limited(bound)) is program
    assert striped(program, limited(bound - 4)) is not program
    assert striped(program, Gap8Options(stripes="never", memory=Gap8Memory(l2=bound - 4))) is program


def test_the_search_finds_what_fits() -> None:
    """All ways to cut the head into one segment in stripes, by their complete plans: what the best takes suffices."""
    program = head()
    places = cuts(program)
    peaks = []
    for first in places:
        for last in (place for place in places if place > first):
            for count in (2, 8):
                if count <= program.tensors[entry_of(program, last)].shape[1]:
                    made = in_stripes(program, [Segment(first, last, count)])
                    peaks.append(checked_plan(made, Gap8Options()).regions["l2"].peak_bytes)
    options = limited(min(peaks))
    assert checked_plan(striped(program, options), options).regions["l2"].peak_bytes <= min(peaks)


def test_least_weighs_code_too() -> None:
    """A stripe's op takes about 120 bytes: far more stripes would have a smaller peak, and take more in all."""
    program = head()
    least = striped(program, Gap8Options(stripes="least"))
    smaller = striped(program, limited(14_500))
    peaks = [checked_plan(each, Gap8Options()).regions["l2"].peak_bytes for each in (program, least, smaller)]
    assert peaks == sorted(peaks, reverse=True)
    totals = [peak + 120 * len(each.ops) for peak, each in zip(peaks, (program, least, smaller), strict=True)]
    assert min(totals) == totals[1]


def test_nothing_is_computed_twice_where_it_need_not_be() -> None:
    """Behind the squeeze layer stripes read rows that are there; before it they would compute rows twice."""
    program = head()
    made = striped(program, limited(37_500))
    assert any(op.kind == "join_rows" for op in made.ops)
    assert sum(macs(op, made) for op in made.ops) == sum(macs(op, program) for op in program.ops)


def test_what_no_stripe_helps_is_told() -> None:
    program = head()
    with pytest.raises(DoesNotFitError, match=r"layers in stripes of rows") as refusal:
        striped(program, limited(6_000))
    assert "do not fit" in refusal.value.reason


def test_cuts_are_where_one_tensor_lives() -> None:
    program = head()
    assert [entry_of(program, place) for place in cuts(program)] == ["x", "v0", "v1", "v4", "v5", "v6"]
    parts = [segment_program(program, Segment(a, b, 1)) for a, b in pairwise([*cuts(program), len(program.ops)])]
    assert [part.inputs for part in parts] == [("x",), ("v0",), ("v1",), ("v4",), ("v5",), ("v6",)]
    assert sum(len(part.ops) for part in parts) == len(program.ops)


def test_a_tensor_beside_the_chain_ends_the_cuts() -> None:
    tensors = {name: Tensor(name, (1, 4, 4), S16, S16.qmin, S16.qmax) for name in ("x", "a", "b", "y")}
    stage = OutputStage(0, S16.qmin, S16.qmax)
    ops = (
        Activation(name="one", inputs=("x",), output="a", stage=stage),
        Activation(name="two", inputs=("a",), output="b", stage=stage),
        Add(name="sum", inputs=("b", "x"), output="y", shifts=(0, 0), stage=stage),
    )
    assert cuts(Program("net", tensors, ops, ("x",), ("y",))) == [0]


@needs_gcc
def test_stripes_run_in_tiles(tmp_path: Path) -> None:
    """On the cluster, under the port that is strict about transfers."""
    program = head()
    options = limited(20_000, cluster={"cores": 8, "l1": 16_384})
    made = striped(program, options)
    assert any(op.kind == "join_rows" for op in made.ops)
    cluster = Cluster(made, options.core_machine())
    for path, content in emit_artifact(
        made, checked_plan(made, options), options.core_machine(), "net", cluster
    ).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    x = {"x": random_values(np.random.default_rng(1), program.tensors["x"])}
    (result,) = HostRunner(flags=("-O0",)).run(tmp_path, made, [x], trace=False)
    expected = plain_reference.run(program, x)
    np.testing.assert_array_equal(result.outputs[program.outputs[0]], expected[program.outputs[0]])
