"""Several memories of different speed: every value stays the same, and what is used most lies in the fastest."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from ansi_c_library import SANITIZERS
from numpy.typing import NDArray
from onnx import load_model_from_string, numpy_helper
from small_project import make_build, write_project
from typer.testing import CliRunner

from nnkit.api.building import run_build
from nnkit.boards import BOARDS
from nnkit.builds import open_build
from nnkit.c.affine.statements import stored
from nnkit.cli import app
from nnkit.errors import DoesNotFitError, RecipeError
from nnkit.program.affine import AffineProgram
from nnkit.program.inputs import stress_inputs
from nnkit.simulate import simulate
from nnkit.verify.artifact import compare_artifact
from nnkit_ansi_c.emit import emit_library
from nnkit_ansi_c.integer_emit import emit_integer_library
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.integer_runner import IntegerHostRunner
from nnkit_ansi_c.integer_stripes import fitted
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.ops import FloatLayer
from nnkit_ansi_c.options import AnsiCOptions, MemoryRegion
from nnkit_ansi_c.regions import Regions, table_traffic
from nnkit_ansi_c.runner import STRICT, HostRunner, described
from nnkit_ansi_c.stripes import Stripes

VALUES = ("{name: dtcm, size: 3KiB, cycles: 1}", "{name: axi, size: 32KiB, cycles: 3}")
WEIGHTS = (
    "{name: flash, size: 2KiB, cycles: 4, holds: weights}",
    "{name: qspi, size: 1MiB, cycles: 20, holds: weights}",
)

FLOAT_VALUES = ("{name: dtcm, size: 16KiB, cycles: 1}", "{name: axi, size: 128KiB, cycles: 3}")
FLOAT_WEIGHTS = tuple(each.replace("2KiB", "8KiB") for each in WEIGHTS)


def built(folder: Path, *regions: str, more: str = "precision: int8") -> Path:
    path = write_project(folder)
    options = f"ansi_c: {{{more}, regions: [{', '.join(regions)}]}}"
    path.write_text(path.read_text().replace("gap8: {}", options))
    return run_build(make_build(path, target="ansi_c"), folder / "out")[0].folder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Values in two memories, weights in two others."""
    return built(tmp_path_factory.mktemp("regions"), *VALUES, *WEIGHTS)


@pytest.fixture(scope="module")
def float_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in float32: four times the bytes."""
    return built(tmp_path_factory.mktemp("float_regions"), *FLOAT_VALUES, *FLOAT_WEIGHTS, more="precision: float32")


def region(name: str, size: int, cycles: float, holds: Literal["values", "weights"] = "values") -> MemoryRegion:
    return MemoryRegion(name=name, size=size, cycles=cycles, holds=holds)


def program_of(build: Path) -> AffineProgram:
    program = open_build(build).program
    assert isinstance(program, AffineProgram)
    return program


def test_every_value_is_that_of_the_program(build: Path) -> None:
    report: dict[str, Any] = json.loads((build / "report.json").read_text())
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["contract"], verdict["mismatches"], report["status"]) == ("exact", 0, "ok")
    program = program_of(build)
    runner = IntegerHostRunner(flags=SANITIZERS)
    checked = compare_artifact(runner, build / "artifact", program, stress_inputs(program, 2))
    assert checked.mismatches == 0, checked.first_difference
    regions = report["memory"]
    assert set(regions) == {"dtcm", "axi", "flash", "qspi", "caller"}
    for name, size in (("dtcm", 3072), ("axi", 32768), ("flash", 2048), ("qspi", 1 << 20)):
        assert regions[name]["capacity_bytes"] == size
        assert 0 < regions[name]["peak_bytes"] <= size
    blobs = {each: (build / "artifact" / f"small_{each}_weights.bin").stat().st_size for each in ("flash", "qspi")}
    assert blobs == {each: regions[each]["peak_bytes"] for each in blobs}
    assert sum(blobs.values()) == report["details"]["weight_bytes"]


def test_an_emulated_board_gives_the_same(build: Path) -> None:
    if (missing := BOARDS["cortex-m4"].missing()) is not None:
        pytest.skip(missing)
    done = CliRunner().invoke(app, ["bench", str(build), "--on", "cortex-m4", "--json"])
    assert json.loads(done.stdout)["mismatches"] == 0


def test_the_plan_names_every_region(build: Path) -> None:
    plan = json.loads((build / "plan.json").read_text())
    assert {each["region"] for each in plan["buffers"].values()} == {"dtcm", "axi", "flash", "qspi", "caller"}
    for name in ("dtcm", "axi", "flash", "qspi"):
        assert (build / f"memory_{name}.svg").exists()


def test_firmware_and_self_test_compile_too(build: Path, tmp_path: Path) -> None:
    compile_all(build / "artifact", tmp_path)


def compile_all(artifact: Path, folder: Path) -> None:
    """Every C file by itself, as the firmware of a board."""
    sources = [artifact / file for file in (*described(artifact)["sources"], "example.c")]
    for source in (*sources, *sorted((artifact / "device").glob("*.c"))):
        command = ["cc", *STRICT, f"-I{artifact}", "-c", str(source), "-o", str(folder / "one.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_weights_as_arrays(build: Path, tmp_path: Path) -> None:
    """Weights alone in regions, values in one arena."""
    program = program_of(build)
    regions = Regions.of([region("flash", 2048, 4, "weights"), region("qspi", 1 << 20, 20, "weights")])
    network = IntegerNetwork.of(program, regions)
    emit_integer_library(network, AnsiCOptions(precision="int8", weights="arrays"), tmp_path)
    checked = compare_artifact(IntegerHostRunner(), tmp_path, program, stress_inputs(program, 1))
    assert checked.mismatches == 0, checked.first_difference
    assert set(network.layout.placement.peaks) == {"arena"}


def test_what_is_used_most_lies_in_the_fastest(build: Path) -> None:
    program = program_of(build)
    fast, slow = region("a", 3072, 1), region("b", 32768, 3)
    regions = Regions.of([slow, fast])
    network = IntegerNetwork.of(program, regions)
    costs = regions.costs(program, network.work)
    assert costs is not None
    placement = network.layout.placement
    taken = sum(costs(room)[placement.places[room.name].region] for room in network.layout.rooms)
    slowest = sum(costs(room)["b"] for room in network.layout.rooms)
    assert placement.cost == taken < 0.75 * slowest
    # Everything lies in the fastest where there is room.
    roomy = IntegerNetwork.of(program, Regions.of([fast.model_copy(update={"size": 1 << 20}), slow]))
    assert {place.region for place in roomy.layout.placement.places.values()} == {"a"}


def test_tables_go_by_traffic_for_each_byte(build: Path) -> None:
    program = program_of(build)
    regions = Regions.of([region("fast", 600, 1, "weights"), region("slow", 1 << 20, 9, "weights")])
    network = IntegerNetwork.of(program, regions)
    density: dict[bytes, float] = {}
    for step, call in enumerate(network.work.calls):
        for table in call.tables.values():
            data = stored(table).tobytes()
            traffic = table_traffic(program.ops[network.work.owners[step]], program, len(data))
            density[data] = density.get(data, 0.0) + traffic / len(data)
    where = network.table_regions
    assert set(where) == set(density)
    fast = [data for data in density if where[data] == "fast"]
    slow = [data for data in density if where[data] == "slow"]
    assert fast
    assert slow
    for data in slow:  # it found no room beside those that are used as much
        before = sum(len(other) + 3 for other in fast if density[other] >= density[data])
        assert before + len(data) > 600 - 12  # an unused kind takes an element
    assert network.held_bytes["fast"] <= 600


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (f"precision: int8, regions: [{VALUES[0]}, {VALUES[0]}]", "two regions have one name"),
        (f"precision: int8, arena: 64KiB, regions: [{VALUES[0]}]", "both `arena` and `regions`"),
    ],
)
def test_what_does_not_go_is_refused(tmp_path: Path, options: str, reason: str) -> None:
    path = write_project(tmp_path)
    path.write_text(path.read_text().replace("gap8: {}", f"ansi_c: {{{options}}}"))
    with pytest.raises(RecipeError) as caught:
        make_build(path, target="ansi_c")
    assert reason in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("small", "reason"),
    [(region("dtcm", 300, 1), "dtcm"), (region("flash", 600, 4, "weights"), "finds no room in flash")],
)
def test_what_does_not_fit_is_told(build: Path, small: MemoryRegion, reason: str) -> None:
    with pytest.raises(DoesNotFitError, match=reason) as caught:
        _ = IntegerNetwork.of(program_of(build), Regions.of([small])).table_regions
    assert caught.value.remedy


def test_stripes_by_themselves_where_regions_are_too_small(build: Path, tmp_path: Path) -> None:
    """The whole finds no room in them, its first layers in stripes do, and every value stays the same."""
    program = program_of(build)
    options = AnsiCOptions(precision="int8", regions=(region("dtcm", 1500, 1), region("axi", 2600, 3)))
    regions = Regions.of(options.regions)
    with pytest.raises(DoesNotFitError):
        IntegerNetwork.of(program, regions)
    striped = fitted(program, Stripes.of(options))
    assert len(striped.ops) > len(program.ops)
    emit_integer_library(IntegerNetwork.of(striped, regions), options, tmp_path)
    checked = compare_artifact(IntegerHostRunner(flags=SANITIZERS), tmp_path, striped, stress_inputs(striped, 1))
    assert checked.mismatches == 0, checked.first_difference
    (given,) = stress_inputs(program, 1)
    values, expected = simulate(striped, given), simulate(program, given)
    for name in program.outputs:
        np.testing.assert_array_equal(values[name], expected[name])
    # Where the whole has room it stays whole, and so it does where the recipe says so.
    roomy = replace(Stripes.of(options), limit_bytes=1 << 20, regions=Regions.of([region("dtcm", 1 << 20, 1)]))
    assert fitted(program, roomy) is program
    assert fitted(program, Stripes.of(options.model_copy(update={"stripes": 1}))) is program


def test_stripes_of_float32_where_regions_are_too_small(float_build: Path, tmp_path: Path) -> None:
    options = ("{name: dtcm, size: 6KiB, cycles: 1}", "{name: axi, size: 12KiB, cycles: 3}")
    build = built(tmp_path, *options, more="precision: float32")
    report = json.loads((build / "report.json").read_text())
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["contract"], verdict["mismatches"]) == ("bounded", 0)
    peaks = {name: report["memory"][name]["peak_bytes"] for name in ("dtcm", "axi")}
    assert peaks["dtcm"] <= 6144
    assert peaks["axi"] <= 12_288
    whole = json.loads((float_build / "report.json").read_text())
    assert sum(whole["memory"][name]["peak_bytes"] for name in ("dtcm", "axi")) > 18_432
    assert len(report["layers"]) > len(whole["layers"])


def test_values_of_float32_lie_in_several_memories_too(float_build: Path, tmp_path: Path) -> None:
    """Some in each, as many bytes as the plan says; every value of every layer as ONNX Runtime has it."""
    report = json.loads((float_build / "report.json").read_text())
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["contract"], verdict["mismatches"]) == ("bounded", 0)
    plan = json.loads((float_build / "plan.json").read_text())
    held = {name: [each for each in plan["buffers"].values() if each["region"] == name] for name in ("dtcm", "axi")}
    assert all(held.values())
    for name, buffers in held.items():
        assert (
            max(each["offset_bytes"] + each["size_bytes"] for each in buffers) <= report["memory"][name]["peak_bytes"]
        )
    header = (float_build / "artifact/small.h").read_text()
    for name in held:
        assert f"float floats[{report['memory'][name]['peak_bytes'] // 4}]" in header
    compile_all(float_build / "artifact", tmp_path)


def test_weights_of_float32_lie_in_several_memories_too(float_build: Path) -> None:
    """A file for each, of the plan's size, and together every number of the network once."""
    report = json.loads((float_build / "report.json").read_text())
    plan = json.loads((float_build / "plan.json").read_text())
    program = open_build(float_build).program
    for name, size in (("flash", 8192), ("qspi", 1 << 20)):
        blob = (float_build / "artifact" / f"small_{name}_weights.bin").read_bytes()
        (buffer,) = [each for each in plan["buffers"].values() if each["region"] == name]
        use = report["memory"][name]
        assert 0 < len(blob) == use["peak_bytes"] == buffer["size_bytes"] <= use["capacity_bytes"] == size
    assert (
        sum(report["memory"][name]["peak_bytes"] for name in ("flash", "qspi")) == report["details"]["weight_bytes"]
    )
    checked = compare_artifact(
        HostRunner(flags=SANITIZERS), float_build / "artifact", program, stress_inputs(program, 2)
    )
    assert checked.mismatches == 0, checked.first_difference


def test_an_emulated_board_takes_float_weights_from_several_memories(float_build: Path) -> None:
    if (missing := BOARDS["cortex-m4"].missing()) is not None:
        pytest.skip(missing)
    done = CliRunner().invoke(app, ["bench", str(float_build), "--on", "cortex-m4", "--json"])
    assert json.loads(done.stdout)["mismatches"] == 0


def test_float_tables_go_by_traffic_for_each_byte(float_build: Path) -> None:
    """What is read most often for its size is fast; the slow ones had no room beside those that are read as often."""
    program = open_build(float_build).program
    fast, slow = region("fast", 8192, 1, "weights"), region("slow", 1 << 20, 9, "weights")
    held = Network.of(program, regions=Regions.of([slow, fast])).weights
    tables = [packed_table(op) for op in program.ops if isinstance(op, FloatLayer) and op.op_type in ("Conv", "Gemm")]
    where = [
        next(name for name, all_of in held.items() if np.isin(numbers, all_of).all()) for numbers, _, _ in tables
    ]
    assert set(where) == {"fast", "slow"}
    for size, reads in (table[1:] for table, name in zip(tables, where, strict=True) if name == "slow"):
        beside = [other for other, name in zip(tables, where, strict=True) if name == "fast" and other[2] >= reads]
        assert sum(other[1] for other in beside) + size > 8192
    assert held["fast"].nbytes <= 8192


def packed_table(op: FloatLayer) -> tuple[NDArray[np.float32], int, float]:
    """A layer's weights as they are in ONNX; their bytes in blocks of eight maps with biases, or a bias for each map
    of a depthwise convolution; how often each is read where two pixels meet it at a time, or four.
    """
    graph = load_model_from_string(op.graph).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    weights = constants[graph.node[0].input[1]]
    if op.op_type == "Gemm":
        columns = op.output_shape[1]
        return weights, 4 * (-(-columns // 8) * 8) * (weights.size // columns + 1), 1.0
    maps, channels, *window = weights.shape
    pixels = prod(op.output_shape[2:])
    if channels == 1 and op.shapes[0][1] == maps:
        return weights, 4 * maps * (prod(window) + 1), max(1.0, pixels / 4)
    return weights, 4 * (-(-maps // 8) * 8) * (channels * prod(window) + 1), max(1.0, pixels / 2)


def test_float_weights_as_arrays(float_build: Path, tmp_path: Path) -> None:
    """Weights alone in regions, values in one arena."""
    program = open_build(float_build).program
    regions = Regions.of([region("flash", 8192, 4, "weights"), region("qspi", 1 << 20, 20, "weights")])
    emit_library(Network.of(program, regions=regions), AnsiCOptions(weights="arrays"), tmp_path)
    checked = compare_artifact(HostRunner(), tmp_path, program, stress_inputs(program, 1))
    assert checked.mismatches == 0, checked.first_difference
    assert "small_arena" in (tmp_path / "small.h").read_text()


def test_float_weights_that_do_not_fit_are_told(float_build: Path) -> None:
    program = open_build(float_build).program
    with pytest.raises(DoesNotFitError, match="finds no room in flash") as caught:
        Network.of(program, regions=Regions.of([region("flash", 600, 4, "weights")]))
    assert caught.value.remedy
