"""Installation and failures of the vendor's toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import ExitCode, ToolError
from nnkit.target import load_target
from nnkit_tpu.toolchain import (
    Toolchain,
    check_version,
    damage,
    find_toolchain,
    install,
    installation_folder,
    require_toolchain,
    run_tpuc_opt,
)
from nnkit_tpu.toolchain.install import read_installation
from nnkit_tpu.toolchain.log import Failure, read_failure
from nnkit_tpu.toolchain.run import CompilerError
from nnkit_tpu.toolchain.wheel import VERSION


def test_absent_toolchain_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    assert find_toolchain() is None
    with pytest.raises(ToolError) as caught:
        require_toolchain()
    assert caught.value.remedy == "nnkit doctor --install tpu"


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "tpu_mlir.whl"
    wheel.write_bytes(b"something else")
    with pytest.raises(ToolError, match="SHA-256"):
        install(wheel)
    assert find_toolchain() is None
    assert not [p for p in (tmp_path / "cache" / "toolchains").iterdir() if p.is_dir()]


def test_an_installation_with_a_short_file_counts_as_absent(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for file in tpu_toolchain.root.rglob("*"):
        if file.is_file():
            link = copy / file.relative_to(tpu_toolchain.root)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    assert read_installation(copy) is not None
    (copy / "bin" / "tpuc-opt").unlink()
    (copy / "bin" / "tpuc-opt").write_bytes(b"cut")
    assert read_installation(copy) is None


def test_a_changed_file_of_the_same_size_is_found(
    tpu_toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    copy = installation_folder()
    for file in tpu_toolchain.root.rglob("*"):
        if file.is_file():
            link = copy / file.relative_to(tpu_toolchain.root)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    (tool,) = load_target("tpu").tools()
    assert tool.damage() == ""
    content = bytearray((copy / "lib" / "libatomic_exec.so").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "lib" / "libatomic_exec.so").unlink()
    (copy / "lib" / "libatomic_exec.so").write_bytes(content)
    assert find_toolchain() is not None
    (tool,) = load_target("tpu").tools()
    assert tool.damage() == "lib/libatomic_exec.so changed since it was installed"
    done = CliRunner().invoke(app, ["doctor"])
    assert "DAMAGED  tpuc-opt" in done.output
    with pytest.raises(ToolError, match="SHA-256"):  # it would be installed anew
        install(copy / "bin" / "tpuc-opt")


@pytest.mark.parametrize(
    ("content", "version"),
    [("built v1.25.1-20250813 by", "1.25.1"), ("nothing", "unknown"), (f"v{VERSION}-20260831", VERSION)],
)
def test_another_version_on_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, version: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tpuc-opt").write_text(f"#!/bin/sh\n# {content}\n", encoding="utf-8")
    (tmp_path / "bin" / "tpuc-opt").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = require_toolchain("path")
    assert found.version == version
    if version == VERSION:
        check_version(found)
        return
    with pytest.raises(ToolError, match="nnkit predicts and reads") as caught:
        check_version(found)
    assert "toolchain: managed" in caught.value.remedy
    assert damage(found) == caught.value.reason


def test_a_compiler_failure_is_a_message_with_the_log(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_text('module { %0 = "top.Nothing"() : () -> none }\n', encoding="utf-8")
    with pytest.raises(ToolError) as caught:
        run_tpuc_opt(tpu_toolchain, ["bad.mlir", "--init"], tmp_path, log_name="bad.log", what="reading")
    assert caught.value.exit_code == ExitCode.TOOL
    assert "top.Nothing" in caught.value.reason
    assert str(tmp_path / "bad.log") in caught.value.remedy
    assert "\n" not in caught.value.reason


def test_a_log_without_a_failure_tells_of_none() -> None:
    assert read_failure("==----==\nRun TopoSortPass :\n") is None


def test_an_assertion_of_a_kernel_is_told_with_its_condition() -> None:
    lines = ("in cmodel, enable profile.", "[0][ERR] SIGN(a) == SIGN(b)failed!")
    kernel = '[0]/workspace/src/kernel/tpu_kernel.c:3798: tpu_bdc_int_mul: Assertion "a == b" failed.'
    told = read_failure("\n".join((*lines, kernel, "Obtained 10 stack frames.", "lib.so(__print_trace)")))
    assert told == Failure("", "the assertion `a == b` of tpu_bdc_int_mul does not hold (tpu_kernel.c:3798)")


STACK = "PLEASE submit a bug report\nStack dump:\n0.\tProgram arguments: tpuc-opt\n #0 0x0000559e\n"


def test_a_crash_is_told_as_one_and_not_by_the_last_statistic() -> None:
    early = "Can not open config file: No such file, using default!\nGroupMethod_process time:7634\n" + STACK
    assert read_failure(early) == Failure("", "it crashed without a reason")
    rule = "==-----------==\n"
    late = f"GroupMethod_process time:7\n{rule}Run TimeStepAssignmentPass : \n{rule}load lg results\n{STACK}"
    assert read_failure(late) == Failure("", "it crashed in or after TimeStepAssignmentPass without a reason")
    spoken = f'Run LocalMemoryAllocationPass : \n{rule}no room at loc("conv_3")\n{STACK}'
    found = read_failure(spoken)
    assert found is not None
    assert found.op == "conv_3"
    assert found.reason.startswith("it crashed in or after LocalMemoryAllocationPass")
    assert found.reason.endswith('its last line: no room at loc("conv_3")')
    # A reason stays the reason.
    told = read_failure("GroupMethod_process time:1\nlocal memory allocate failed for group 0\n" + STACK)
    assert told == Failure("", "local memory allocate failed for group 0")


ASSERTED = (
    '%0 = "top.Input"(%arg0) : (tensor<1x6xf32>) -> tensor<1x6xf32> loc("rows")\n'
    '-> %1 = "top.Reshape"(%0) {shape = [1, 4]} : (tensor<1x6xf32>) -> tensor<1x4xf32> loc("cut")\n'
    '%2 = "top.Tanh"(%1) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("y")\n'
    "ASSERT executed at/home/ci/tpu/lib/Dialect/Top/Reshape.cpp:158\n"
)


@pytest.mark.parametrize(
    ("after", "op", "told"),
    [
        ("ASSERT INFO:num_input == num_output\nOperation:\n", "cut", "`num_input == num_output` does not hold"),
        ("ASSERT INFO:\n", "cut", "an assertion of it does not hold (lib/Dialect/Top/Reshape.cpp:158)"),
        ("ASSERT INFO:\nn is odd\n", "cut", "`n is odd` does not hold (lib/Dialect/Top/Reshape.cpp:158)"),
        ('ASSERT INFO:n < 4\nOperation:\n%7 = "top.Add"(%1) loc("sum")\n', "sum", "`n < 4` does not hold"),
        (
            'ASSERT INFO:n < 4\nOperation:\n%7:2 = "top.A"(%1) loc(fused["all", "last"])\n',
            "all",
            "`n < 4` does not hold",
        ),
        (f'ASSERT INFO:n < 4\n{STACK}%7 = "top.Add"(%1) loc("later")\n', "cut", "`n < 4` does not hold"),
    ],
)
def test_an_assertion_of_the_compiler_is_told_with_its_op(after: str, op: str, told: str) -> None:
    found = read_failure(ASSERTED + after)
    assert found is not None
    assert found.op == op
    assert told in found.reason


def test_a_place_never_to_be_reached_is_told_by_the_words_before_it() -> None:
    op = '%8 = "top.Sinh"(%0) : (tensor<1xf32>) -> tensor<1xf32> loc("sinh")\n'
    place = "UNREACHABLE executed at /home/ci/lib/Conversion/TopToTpuPass.cpp:1921!\n"
    found = read_failure(f"{op}unimplemented tpu dialect!\n{place}{STACK}")
    assert found == Failure("sinh", "unimplemented tpu dialect! (lib/Conversion/TopToTpuPass.cpp:1921)")
    silent = read_failure(f"{op}{place}{STACK}")
    assert silent == Failure("sinh", "it came to where it never should (lib/Conversion/TopToTpuPass.cpp:1921)")


def test_an_assertion_of_c_is_told_without_the_types_of_its_function() -> None:
    types = "[T = float, " + "Traits = <mlir::ShapedType::Trait>, " * 20 + "]"
    place = "/home/ci/lib/Support/TensorFile.cpp:165"
    line = f"tpuc-opt: {place}: mlir::LogicalResult addTensor(llvm::StringRef) {types}: Assertion `n == true' failed."
    told = read_failure(f'%1 = "top.Add"(%0) loc("sum")\n{line}\n{STACK}')
    assert told == Failure("sum", "its assertion `n == true` does not hold (lib/Support/TensorFile.cpp:165)")
    # An error in words stays the reason, also where the compiler knows no place for it.
    told = read_failure(f"<unknown>:0: error: invalid tensor element type: 'none'\n{line}\n{STACK}")
    assert told == Failure("", "invalid tensor element type: 'none'")


@pytest.mark.parametrize("in_integers", [True, False])
def test_sixteen_bits_are_advised_where_the_step_has_a_precision(tmp_path: Path, in_integers: bool) -> None:
    compiler = tmp_path / "bin" / "tpuc-opt"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\necho 'loc(\"sum\"): error: no such op'\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(CompilerError) as caught:
        run_tpuc_opt(
            Toolchain(tmp_path, "managed", "0"),
            [],
            tmp_path,
            log_name="a.log",
            what="lowering",
            in_integers=in_integers,
        )
    assert ("tag the layer `hp`" in caught.value.remedy) == in_integers
    assert ("`strip_var` with `then: cut`" in caught.value.remedy) != in_integers


def test_a_compiler_that_is_killed_is_a_message_with_the_log(tmp_path: Path) -> None:
    compiler = tmp_path / "bin" / "tpuc-opt"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\necho 'Run SubnetDividePass : '\necho 'Stack dump:'\nkill -SEGV $$\n")
    compiler.chmod(0o755)
    toolchain = Toolchain(tmp_path, "managed", "0")
    with pytest.raises(ToolError) as caught:
        run_tpuc_opt(toolchain, [], tmp_path, log_name="place.log", what="placing layers")
    assert "it crashed in or after SubnetDividePass" in caught.value.reason
    assert str(tmp_path / "place.log") in caught.value.remedy


def test_a_compiler_that_does_not_end_in_time_is_stopped_and_told(tmp_path: Path) -> None:
    compiler = tmp_path / "bin" / "tpuc-opt"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\nsleep 600\n")
    compiler.chmod(0o755)
    with pytest.raises(CompilerError, match=r"did not end within 0\.2 s") as caught:
        run_tpuc_opt(Toolchain(tmp_path, "managed", "0", 0.2), [], tmp_path, log_name="a.log", what="placing layers")
    assert caught.value.timed_out
    assert "compiler_timeout_s" in caught.value.remedy
