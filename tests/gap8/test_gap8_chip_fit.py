"""What does not fit GAP8 or does not link is refused, without an emulator and without a compiler; code is bounded."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from onnx import TensorProto, helper, numpy_helper
from random_affine_ops import RandomOps
from random_programs import random_programs

from nnkit.errors import DoesNotFitError, ToolError
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program, Window
from nnkit.program.affine import AffineProgram
from nnkit_gap8 import chip_fit
from nnkit_gap8 import options as gap8_options
from nnkit_gap8.affine.code_size import affine_code_bytes
from nnkit_gap8.affine.emit import emit_affine_artifact
from nnkit_gap8.affine.scheme import planned
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.chip_fit import check_code_fits, check_links
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.code_choice import kept_for_code, steps_form
from nnkit_gap8.code_size import StepsForm, code_bytes
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.gvsoc_runner import link_for_cluster
from nnkit_gap8.options import L2_BYTES, Gap8Cluster, Gap8Memory, Gap8Options
from nnkit_gap8.runners import compiled_code_bytes
from nnkit_gap8.target import Gap8Target
from tests.gap8.artifacts import has
from tests.gap8.test_gap8_stripes import Layers, same
from tests.helpers.nnkit_command import run_nnkit

needs_compiler = pytest.mark.skipif(not has("riscv64-unknown-elf-gcc"), reason="no rv32 compiler")
ROOMY = Gap8Memory(l2=8 << 20, larger_chip=True)
SETTINGS = settings(
    max_examples=4,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def _written(files: dict[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


NEAR_THE_LIMIT = [(0, 1.0, 0.9), (7, 1.0, 0.9), (8, 1.0, 0.9), (1, 0.75, 0.75), (9, 0.75, 0.75), (10, 0.75, 0.75)]


@needs_compiler
@pytest.mark.parametrize(("cluster", "form"), [(None, "calls"), (None, "table"), (Gap8Cluster(), "calls")])
def test_code_of_fixed_point_is_never_more_than_its_bound(
    cluster: Gap8Cluster | None, form: StepsForm, tmp_path: Path
) -> None:
    options, folders = Gap8Options(memory=ROOMY, cluster=cluster), iter(range(99))

    @seed(3)
    @settings(
        max_examples=4, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    @given(random_programs())
    def compare(program: Program) -> None:
        assume(not set(program.inputs) & set(program.outputs))
        plan, machine = checked_plan(program, options), options.core_machine()
        tiles = None if cluster is None else Cluster(program, machine)
        files = emit_artifact(program, plan, machine, "net", tiles, as_table=form == "table")
        taken = compiled_code_bytes(_written(files, tmp_path / str(next(folders))))
        assert taken <= code_bytes(program, plan, options, form) <= 1.5 * taken

    compare()


def _drawn(number: int) -> AffineProgram:
    draw, choose = RandomOps(number), random.Random(number)
    for _ in range(choose.randint(2, 6)):
        bits = choose.choice((8, 8, 16))
        kind = choose.choice(
            ["conv", "transposed", "depthwise", "slopes", "max", "average", "add", "mul", "softmax", "log"]
        )
        match kind:
            case "conv" | "transposed" | "depthwise" | "slopes":
                draw.conv(bits=bits, **({} if kind == "conv" else {kind: True}))
            case "max" | "average":
                draw.pool(kind, bits=bits)
            case "add":
                draw.add(bits=bits)
            case "mul":
                draw.mul(by_channel=True, bits=bits)
            case "softmax":
                draw.softmax(bits=bits)
            case "log":
                draw.log_softmax(bits=bits)
    return draw.program("net")


@needs_compiler
@pytest.mark.parametrize("number", range(4))
def test_code_of_affine_integers_is_never_more_than_its_bound(number: int, tmp_path: Path) -> None:
    options = Gap8Options(scheme="affine", memory=ROOMY, cluster=Gap8Cluster() if number % 2 else None)
    calls = planned(_drawn(number), options)
    taken = compiled_code_bytes(_written(emit_affine_artifact(calls), tmp_path))
    assert taken <= affine_code_bytes(calls) <= 2 * taken


def test_a_build_of_affine_integers_is_planned_once() -> None:
    program, options = _drawn(0), Gap8Options(scheme="affine", memory=ROOMY)
    first = planned(program, options)
    assert planned(program, options.model_copy()) is first
    with_code = planned(program, options.model_copy(update={"memory": ROOMY.model_copy(update={"code": "auto"})}))
    assert kept_for_code(with_code.plan) >= affine_code_bytes(with_code) > kept_for_code(first.plan) == 0


@needs_compiler
def test_a_softmax_for_the_cluster_links_only_with_the_flags_of_its_makefile(tmp_path: Path) -> None:
    draw = RandomOps(1)
    draw.softmax(bits=16)
    calls = planned(draw.program("net"), Gap8Options(scheme="affine", memory=ROOMY, cluster=Gap8Cluster()))
    artifact = _written(emit_affine_artifact(calls), tmp_path / "artifact")
    work = tmp_path / "work"
    work.mkdir()
    assert link_for_cluster(artifact, work).is_file()
    description = json.loads((artifact / "network.json").read_text())
    assert all(flag in (artifact / "pulp/Makefile").read_text() for flag in description["flags"])
    (artifact / "network.json").write_text(json.dumps(description | {"flags": []}))
    with pytest.raises(ToolError, match="riscv64-unknown-elf-gcc: it ended with code 1"):
        check_links(artifact)


def _wide_network(folder: Path, side: int, widened: int) -> Path:
    """Convolutions of [4 - widened, side, side], which take most of L2 in 16 bits: to 3 channels, and a sixteenth."""
    rng = np.random.default_rng(0)
    channels = 4 - widened
    weights = {
        "v": rng.normal(0, 0.2, (widened, channels, 3, 3)).astype(np.float32),
        "w": rng.normal(0, 0.2, (4, widened or channels, 3, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["wide"], name="first", pads=[1] * 4),
        helper.make_node("Conv", ["wide", "w"], ["y"], name="second", pads=[1] * 4, strides=[4, 4]),
    ]
    if not widened:
        nodes = nodes[1:]
        nodes[0].input[0] = "x"
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, side, side))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, name) for name, weight in weights.items() if weight.size],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx"
    )
    np.save(folder / "0.npy", rng.normal(0, 1, (1, channels, side, side)).astype(np.float32))
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        "nnkit: 1\nname: wide\nmodel: {path: net.onnx, inputs: {x: {calibration: {images: 0.npy}}}}\n"
        "targets: {gap8: {}}\n"
    )
    return recipe


@needs_compiler
@pytest.mark.parametrize(("scheme", "side", "widened"), [("power_of_two", 255, 3), ("affine", 255, 0)])
def test_data_and_code_beyond_l2_are_refused_and_the_remedy_does(
    scheme: str, side: int, widened: int, tmp_path: Path
) -> None:
    """Tensors take some 522,000 of 524,288 bytes: whole, but in stripes of rows far less."""
    recipe = _wide_network(tmp_path, side, widened)
    command = ["run", recipe, "--no-qemu", "--no-cache", "--out", tmp_path / "out"]
    command += ["--set", f"targets.gap8.scheme={scheme}"]
    refused = run_nnkit("plan", recipe, "--no-cache", *command[-2:])
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "instructions and constants" in refused.stderr
    assert run_nnkit(*command).stderr.splitlines()[-2:] == refused.stderr.splitlines()[-2:]
    if scheme == "affine":  # all layers run whole: there is no other plan
        assert "finds no room for the code either" in refused.stderr
        return
    assert "set `memory: {code: auto}`" in refused.stderr
    followed = run_nnkit(*command, "--set", "targets.gap8.memory.code=auto")
    assert followed.returncode == 0, followed.stderr


def test_code_that_only_a_compiler_could_show_to_fit_is_refused_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Gap8Options(scheme="affine")
    calls = planned(_drawn(0), options)
    room = options.memory.l2 - calls.plan.regions["l2"].peak_bytes
    monkeypatch.setattr(chip_fit, "missing_tools", lambda names: "none here")

    def check(most_bytes: int) -> None:
        check_code_fits("net", calls.plan, options, most_bytes, lambda: 0, lambda code: "")

    check(room)
    with pytest.raises(DoesNotFitError, match=f"at most {room + 1:,} bytes") as caught:
        check(room + 1)
    assert "install a compiler that measures the code" in caught.value.remedy


def _wide_layers(number: int) -> Program:
    """Wide tensors between narrow ones, so that stripes of rows take less of L2."""
    draw = random.Random(number)
    layers = Layers(number, draw.choice([4, 8]), draw.choice([24, 32]), 32)
    for _ in range(draw.randint(2, 4)):
        kind = draw.choice(["conv", "inverted", "fire", "residual"])
        channels = layers.shape[0]
        match kind:
            case "conv":
                layers.conv(draw.choice([4, 16]), same(3, draw.choice([1, 2])))
            case "inverted":
                layers.conv(3 * channels, Window(1, 1))
                layers.conv(channels, same(3), groups=channels)
            case "fire":
                layers.fire(2, 12)
            case "residual":
                layers.residual()
    return layers.program()


@pytest.mark.parametrize(("number", "data_share", "code_share"), NEAR_THE_LIMIT)
def test_code_auto_is_the_remedy_exactly_where_it_does(
    number: int, data_share: float, code_share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chip whose L2 has almost room for data and code of a drawn network, whole or in stripes."""
    monkeypatch.setattr(chip_fit, "missing_tools", lambda names: "none here")
    network, target = _wide_layers(number), Gap8Target()

    def built(code: Literal["auto"] | None, l2_bytes: int = L2_BYTES) -> tuple[Program, MemoryPlan]:
        options = Gap8Options(memory=Gap8Memory(l2=l2_bytes, code=code))
        program = target._arranged(network, options)
        plan = checked_plan(program, options)
        target.check_room(program, plan, options, lambda other: target._arranged(network, other))
        return program, plan

    program, plan = built(None)
    code = code_bytes(program, plan, Gap8Options(), "calls")
    l2_bytes = int(data_share * plan.regions["l2"].peak_bytes + code_share * code)
    monkeypatch.setattr(gap8_options, "L2_BYTES", l2_bytes)
    with pytest.raises(DoesNotFitError, match="instructions and constants") as refused:
        built(None, l2_bytes)
    if "finds no room for the code either" in refused.value.remedy:
        with pytest.raises(DoesNotFitError):
            built("auto", l2_bytes)
        return
    assert refused.value.remedy.startswith("set `memory: {code: auto}`")
    program, plan = built("auto", l2_bytes)
    form = steps_form(program, plan, Gap8Options(memory=Gap8Memory(l2=l2_bytes, code="auto")))
    assert plan.regions["l2"].peak_bytes <= l2_bytes
    assert code_bytes(program, plan, Gap8Options(), form) <= plan.buffers["code"].size_bytes
