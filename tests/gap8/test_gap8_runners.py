"""Runners: values, memory and instructions on the emulated rv32; guards; what tools that fail or are missing say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import InternalError, ToolError
from nnkit.program import Fixed, Program, Window
from nnkit_gap8.call_stack import worst_stack_bytes
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.runners import HostRunner, Rv32Runner, execute_on_host
from tests.c.fixed import plain_reference
from tests.c.fixed.programs import S8, S16, U8, conv
from tests.c.fixed.random_ops import Random, everything
from tests.gap8.artifacts import has, random_inputs, write_artifact
from tests.gap8.plans import naive_plan

needs_rv32 = pytest.mark.skipif(
    not (has("riscv64-unknown-elf-gcc") and has("qemu-system-riscv32")), reason="no rv32 compiler or emulator"
)


def small(seed: int = 1) -> Program:
    r = Random(seed)
    x = r.fresh((3, 8, 9), S16)
    conv(r.rng, r.builder, x, "hidden", 6, S16, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1))
    r._conv("hidden", S16, Window(1, 1), 5)
    return r.program()


@needs_rv32
def test_every_kernel_on_rv32(tmp_path: Path) -> None:
    program = everything(7)
    plan = naive_plan(program, 8)
    artifact = write_artifact(program, tmp_path, plan)
    inputs = [random_inputs(program, seed, extreme=bool(seed)) for seed in (0, 1)]
    results = Rv32Runner().run(artifact, program, inputs, trace=True)
    for sample, result in zip(inputs, results, strict=True):
        expected = plain_reference.run(program, sample)
        for name in program.outputs:
            np.testing.assert_array_equal(result.outputs[name], expected[name])
        for op in program.ops:
            np.testing.assert_array_equal(result.tensors[op.output], expected[op.output], err_msg=op.name)
        # The painted extent of L2 is the plan's peak, and no byte of stack beyond the analysed ones was used.
        assert result.measured["l2_painted_bytes"] == plan.regions["l2"].peak_bytes
        assert 0 < result.measured["stack_used_bytes"] <= result.measured["stack_worst_bytes"] <= STACK_BYTES
        assert result.measured["stack_used_bytes"] > 0.8 * result.measured["stack_worst_bytes"]
    assert set(results[0].instructions_by_layer) == {op.name for op in program.ops}


@needs_rv32
@pytest.mark.parametrize("runner", [HostRunner(), Rv32Runner()], ids=["host", "rv32"])
@pytest.mark.parametrize("names", [("inputs", "outputs"), ("step", "fetch"), ("set_task", "count")], ids=str)
def test_tensors_may_be_called_as_the_c_calls_its_own(
    names: tuple[str, str], runner: HostRunner | Rv32Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input called `inputs` was read over the file that it is read from."""
    r = Random(1)
    conv(r.rng, r.builder, r.builder.input(names[0], (3, 8, 9), S16), "hidden", 6, S16, Window(3, 3))
    r.outputs.append(names[1])
    monkeypatch.setattr(r, "output", lambda: names[1])
    r._conv("hidden", S16, Window(1, 1), 5)
    program = r.program()
    artifact = write_artifact(program, tmp_path, as_table=names[0] == "step")
    inputs = random_inputs(program, 0)
    (result,) = runner.run(artifact, program, [inputs], trace=False)
    np.testing.assert_array_equal(result.outputs[names[1]], plain_reference.run(program, inputs)[names[1]])


@needs_rv32
def test_instructions_are_exact_and_add_up(tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path)
    first = Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)[0]
    again = Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)[0]
    assert first.instructions == again.instructions is not None
    by_layer = sum(first.instructions_by_layer.values())
    assert 0.98 * first.instructions < by_layer < 1.01 * first.instructions


@needs_rv32
@pytest.mark.parametrize(
    ("x", "layers"),
    [(S16, ((S16, False), (S16, True))), (S8, ((S8, False), (S8, True))), (U8, ((U8, False), (S8, False)))],
    ids=["int16, linear and leaky", "int8, linear and leaky", "int8, Relu and linear"],
)
def test_the_stack_is_bounded_where_kernels_hold_functions_that_are_alike(
    x: Fixed, layers: tuple[tuple[Fixed, bool], ...], tmp_path: Path
) -> None:
    """Both depthwise kernels copy the same type into their bands."""
    r = Random(3)
    for y, leaky in layers:
        r.depthwise(x, y, leaky=leaky, weight_bits=x.bits)
    program = r.program()
    sample = random_inputs(program, 0)
    expected = plain_reference.run(program, sample)
    result = Rv32Runner().run(write_artifact(program, tmp_path), program, [sample], trace=False)[0]
    for name in program.outputs:
        np.testing.assert_array_equal(result.outputs[name], expected[name])
    assert 0 < result.measured["stack_used_bytes"] <= result.measured["stack_worst_bytes"]


@needs_rv32
def test_parts_do_not_change_values_on_rv32(tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path)
    sample = random_inputs(program, 0)
    expected = plain_reference.run(program, sample)
    for parts in (1, 8):
        result = Rv32Runner(parts=parts).run(artifact, program, [sample], trace=False)[0]
        for name in program.outputs:
            np.testing.assert_array_equal(result.outputs[name], expected[name])


def test_the_host_program_refuses_parts_that_its_memory_was_not_planned_for(tmp_path: Path) -> None:
    """A header says the most parts; scratch in L1 is planned for so many."""
    program = small()
    artifact = write_artifact(program, tmp_path, cores=4)
    binary = HostRunner(flags=("-O0", "-fsanitize=address")).compile(artifact, tmp_path, trace=False)
    sample = random_inputs(program, 0)
    for said in ("5", "0", "-1", "", "two", "4x", "18446744073709551617"):
        command = [str(binary), "weights.bin", "nothing.bin", "outputs.bin", said]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, f"{said}: parts must be 1 to 4\n")
    with pytest.raises(ToolError, match="9: parts must be 1 to 4"):
        execute_on_host(binary, artifact, program, [sample], parts=9, trace=False)
    (result,) = execute_on_host(binary, artifact, program, [sample], parts=4, trace=False)
    expected = plain_reference.run(program, sample)
    for name in program.outputs:
        np.testing.assert_array_equal(result.outputs[name], expected[name])


@needs_rv32
def test_a_program_for_the_board_is_not_compiled_for_more_parts(tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path, cores=4)
    with pytest.raises(ToolError, match="PARTS must be 1 to NET_PARTS"):
        Rv32Runner(parts=5).run(artifact, program, [random_inputs(program, 0)], trace=False)


@needs_rv32
def test_the_linker_refuses_what_does_not_fit_l2(tmp_path: Path) -> None:
    program = small()
    plan = naive_plan(program, 1, l2_capacity=naive_plan(program, 1).regions["l2"].peak_bytes - 64)
    artifact = write_artifact(program, tmp_path, plan, cores=1)
    with pytest.raises(ToolError, match="region `L2' overflowed"):
        Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)


@needs_rv32
@pytest.mark.parametrize("more_bytes", [0, 1, 2, 3])
def test_l2_of_any_size_that_holds_the_plan(more_bytes: int, tmp_path: Path) -> None:
    """No multiple of 16, which the stack's start is, and no whole words."""
    r = Random(1)
    r._conv(r.fresh((3, 5, 7), S16), S16, Window(1, 1), 5)
    program = r.program()
    peak_bytes = checked_plan(program, Gap8Options(cores=1)).regions["l2"].peak_bytes
    assert peak_bytes % 16 != 0
    exact = Gap8Options.model_validate({"cores": 1, "memory": {"l2": peak_bytes + more_bytes}})
    plan = checked_plan(program, exact)
    assert plan.regions["l2"].peak_bytes == peak_bytes
    artifact = write_artifact(program, tmp_path, plan, cores=1)
    result = Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)[0]
    assert result.measured["l2_painted_bytes"] <= peak_bytes


@needs_rv32
@pytest.mark.parametrize(("region", "capacity"), [("l2", 512 << 10), ("l1", 64 << 10)])
def test_a_write_behind_a_region_traps(region: str, capacity: int, tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path)
    source = artifact / "net.c"
    text = source.read_text()
    stray = f"    ((volatile nnkit_u8 *){region})[{capacity}] = 1;\n"
    assert text.count("    return 0;\n") == 1
    source.write_text(text.replace("    return 0;\n", f"{stray}    return 0;\n"))
    with pytest.raises(ToolError, match="access to guarded memory"):
        Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)


@needs_rv32
def test_l2_use_beyond_the_plan_shows_in_the_paint(tmp_path: Path) -> None:
    program = small()
    plan = naive_plan(program, 8)
    artifact = write_artifact(program, tmp_path, plan)
    source = artifact / "net.c"
    text = source.read_text()
    stray = "    ((volatile nnkit_u8 *)l2)[200000] = 1;\n"
    source.write_text(text.replace("    return 0;\n", f"{stray}    return 0;\n"))
    result = Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)[0]
    assert result.measured["l2_painted_bytes"] > plan.regions["l2"].peak_bytes


@needs_rv32
def test_more_arguments_than_registers(tmp_path: Path) -> None:
    """Ten inputs and outputs: two of the call's arguments are passed on the network's stack."""
    r = Random(21)
    for _ in range(5):
        r.elementwise("activation", S16, S16, S16)
    program = r.program()
    artifact = write_artifact(program, tmp_path)
    sample = random_inputs(program, 0)
    expected = plain_reference.run(program, sample)
    result = Rv32Runner().run(artifact, program, [sample], trace=False)[0]
    for name in program.outputs:
        np.testing.assert_array_equal(result.outputs[name], expected[name])


@needs_rv32
def test_context_has_the_size_that_the_plan_reserves(tmp_path: Path) -> None:
    artifact = write_artifact(small(), tmp_path)
    header = artifact / "net.h"
    check = f"NNKIT_STATIC_CHECK(context, sizeof(struct net_context) == {CONTEXT_BYTES});\n"
    header.write_text(header.read_text().replace("/* One inference.", f"{check}\n/* One inference."))
    program = small()
    result = Rv32Runner().run(artifact, program, [random_inputs(program, 0)], trace=False)[0]
    assert result.measured["stack_worst_bytes"] <= STACK_BYTES


def test_host_runs_several_inputs(tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path)
    inputs = [random_inputs(program, seed) for seed in range(3)]
    results = HostRunner().run(artifact, program, inputs, trace=False)
    assert len(results) == 3
    for sample, result in zip(inputs, results, strict=True):
        expected = plain_reference.run(program, sample)
        for name in program.outputs:
            np.testing.assert_array_equal(result.outputs[name], expected[name])
        assert not result.tensors


def test_compile_errors_end_in_a_tool_error_with_the_log(tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path)
    (artifact / "net.c").write_text("int broken(void) { return undeclared_thing; }\n")
    with pytest.raises(ToolError, match="undeclared_thing"):
        HostRunner().run(artifact, program, [random_inputs(program, 0)], trace=False)


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    host, rv32 = HostRunner().missing(), Rv32Runner().missing()
    assert host is not None
    assert "gcc" in host
    assert rv32 is not None
    assert all(package in rv32 for package in ("qemu-system-misc", "gcc-riscv64-unknown-elf"))
    artifact = write_artifact(small(), tmp_path / "artifact")
    with pytest.raises(ToolError):
        HostRunner().run(artifact, small(), [random_inputs(small(), 0)], trace=False)
    with pytest.raises(ToolError) as caught:
        Rv32Runner().run(artifact, small(), [random_inputs(small(), 0)], trace=False)
    assert "apt-get install" in caught.value.remedy


def test_weights_that_cannot_be_read_fail_the_run(tmp_path: Path) -> None:
    program = small()
    artifact = write_artifact(program, tmp_path)
    (artifact / "weights.bin").write_bytes(b"short")
    with pytest.raises(ToolError, match="weights cannot be read"):
        HostRunner().run(artifact, program, [random_inputs(program, 0)], trace=False)


GRAPH = """graph: {{ title: "a.c"
node: {{ title: "root" label: "root\\na.c:1:5\\n48 bytes (static)\\n0 dynamic objects" }}
node: {{ title: "a.c:left" label: "left\\na.c:9:5\\n16 bytes (static)\\n0 dynamic objects" }}
node: {{ title: "right" label: "right\\na.c:12:5\\n80 bytes ({kind})\\n0 dynamic objects" }}
node: {{ title: "other" label: "other\\n<built-in>" shape : ellipse }}
edge: {{ sourcename: "root" targetname: "a.c:left" label: "a.c:2:3" }}
edge: {{ sourcename: "root" targetname: "right" label: "a.c:3:3" }}
edge: {{ sourcename: "a.c:left" targetname: "other" label: "a.c:10:3" }}
{more}
}}"""
OTHER = 'node: { title: "other" label: "other\\nb.c:1:5\\n32 bytes (static)\\n0 dynamic objects" }'


def test_worst_stack_by_hand() -> None:
    """root 48 + max(left 16 + other 32, right 80) = 128; with other at 80 it would be 144."""
    assert worst_stack_bytes([GRAPH.format(kind="static", more=""), OTHER], "root") == 128
    assert worst_stack_bytes([GRAPH.format(kind="static", more=""), OTHER.replace("32", "80")], "root") == 144


@pytest.mark.parametrize(
    ("graphs", "reason"),
    [
        ([GRAPH.format(kind="static", more="")], "not known"),
        ([GRAPH.format(kind="dynamic", more=""), OTHER], "unknown size"),
        (
            [GRAPH.format(kind="static", more='edge: { sourcename: "right" targetname: "root" label: "x" }'), OTHER],
            "recursion",
        ),
        (
            [
                GRAPH.format(
                    kind="static", more='edge: { sourcename: "right" targetname: "__indirect_call" label: "x" }'
                ),
                OTHER,
            ],
            "not known",
        ),
    ],
)
def test_what_cannot_be_bounded_is_refused(graphs: list[str], reason: str) -> None:
    with pytest.raises(InternalError, match=reason):
        worst_stack_bytes(graphs, "root")
