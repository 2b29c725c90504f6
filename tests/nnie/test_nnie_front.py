"""Networks that begin on the CPU: what the mapper gets, what feeds it, and the board's program."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from nnie_board_sdk import BoardSdk, program_of
from nnie_networks import Net, in_opencv
from nnie_stn_project import stn_model
from PIL import Image
from small_project import make_build
from typer.testing import CliRunner

from nnkit import pipeline
from nnkit.cli import app
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.preprocess import Preprocess, load_input
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.compare_dumps import our_values
from nnkit_nnie.parts import parts_of
from nnkit_nnie.segments import divide

CUSTOM = Division("hi3516dv300", compile_mode=1, custom=("first", "spread"))
RECIPE = """\
nnkit: 1
name: begins
model:
  path: net.onnx
  inputs:
    image:
      preprocess: {{color: bgr, mean: [104, 117, 123], scale: 0.0078125}}
      calibration: {{images: images/*.ppm}}
    side: {{preprocess: {{color: gray, scale: 0.00390625}}, calibration: {{images: images/*.pgm}}}}
{tags}targets:
  nnie: {{chip: hi3516dv300, compile_mode: 1, precision_table: false, custom: [{custom}]}}
"""
CENTRED = Preprocess("bgr", mean=(104.0, 117.0, 123.0), scale=(0.0078125,))


def begins_on_the_cpu() -> Model:
    """CPU: first, spread; NNIE: with side beside it, sum, second; CPU: turned; NNIE: map. spread is an output too."""
    net = Net(3)
    spread = net.node("Softsign", [net.conv(net.input("image", 3, 20, 36), (3, 5), "first")], "spread")
    side = net.node("Concat", [spread, net.input("side", 1, 20, 36)], "sum", axis=1)
    second = net.conv(side, (6, 6), "second", strides=[2, 2])
    turned = net.node("Abs", [net.node("Neg", [second], "negative")], "turned")
    return net.model(net.conv(turned, (6, 4), "map"), "spread")


def write(folder: Path, custom: str = "first, spread", tags: str = "tags: {cpu: [turned]}\n") -> Path:
    (folder / "net.onnx").write_bytes(begins_on_the_cpu().onnx_bytes)
    (folder / "images").mkdir()
    for index in range(3):
        random = np.random.default_rng(index)
        Image.fromarray(random.integers(0, 256, (20, 36, 3)).astype(np.uint8)).save(folder / f"images/{index}.ppm")
        Image.fromarray(random.integers(0, 256, (20, 36)).astype(np.uint8)).save(folder / f"images/{index}.pgm")
    (folder / "recipe.yaml").write_text(RECIPE.format(custom=custom, tags=tags))
    return folder / "recipe.yaml"


def sample(folder: Path, index: int) -> dict[str, np.ndarray]:
    return {
        "image": load_input(folder / f"images/{index}.ppm", CENTRED, (1, 3, 20, 36)),
        "side": load_input(folder / f"images/{index}.pgm", Preprocess("gray", scale=(0.00390625,)), (1, 1, 20, 36)),
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of a recipe, and its build."""
    folder = tmp_path_factory.mktemp("begins")
    return folder, pipeline.run(make_build(write(folder), target="nnie"), folder / "out").folder


def test_the_mapper_gets_the_network_behind_the_front():
    """OpenCV computes the emitted pair from what ONNX Runtime gives of the front, as ONNX Runtime does the whole."""
    model = begins_on_the_cpu()
    network = divide(model, CUSTOM)
    assert [segment.placement for segment in network.segments] == ["cpu", "npu"]
    assert "the network begins on the CPU, with first to spread" in " ".join(network.notes)
    (part,) = parts_of(network, CUSTOM)
    pair = part.pair
    assert {"first", "spread"}.isdisjoint(pair.layers)
    random = np.random.default_rng(0)
    inputs = {spec.name: random.uniform(-1, 1, spec.shape).astype(np.float32) for spec in model.inputs}
    expected = FloatSession(model).run(inputs)
    read = in_opencv(pair)
    read.setInput(inputs["side"], "side")
    read.setInput(expected["spread"], "spread")
    np.testing.assert_allclose(read.forward(pair.blobs["map"]), expected["map"], rtol=1e-4, atol=1e-4)
    assert [spec.name for spec in part.network.graph.model.inputs] == ["side", "spread"]


def test_the_mapper_is_calibrated_on_what_the_front_gives(project: tuple[Path, Path]):
    folder, build = project
    artifact = build / "artifact"
    cfg = (artifact / "begins.cfg").read_text()
    assert [line.split()[1] for line in cfg.splitlines() if line.startswith("[image_type]")] == ["1", "0"]
    rows = np.loadtxt(artifact / "images_spread.txt")
    session = FloatSession(begins_on_the_cpu())
    for index, row in enumerate(rows):
        np.testing.assert_allclose(row, session.run(sample(folder, index))["spread"].ravel(), atol=1e-5)
    assert len(rows) == 3
    assert not (artifact / "images_image.txt").exists()
    readme = (artifact / "README.md").read_text()
    assert "`image` 1 x 3 x 20 x 36: u8, colours in the order BGR, normalised by `board/`, for the CPU, as" in readme
    assert "`side` 1 x 1 x 20 x 36: u8, normalised on the chip as" in readme


def test_the_run_verifies_the_pair_and_the_c_of_both_segments(project: tuple[Path, Path]):
    _, build = project
    report = json.loads((build / "report.json").read_text())
    sides = [each["runs_on"] for each in report["details"]["segments"]]
    assert sides == ["cpu", "nnie", "cpu", "nnie"]
    text = json.dumps(report)
    assert "the network begins on the CPU" in text
    assert {path.name for path in (build / "artifact" / "cpu").iterdir()} == {"segment0", "segment2"}


def test_the_boards_program_runs_the_front_first(project: tuple[Path, Path]):
    folder, build = project
    board = BoardSdk(build, folder)
    lines = [f"images/{index}.ppm\timages/{index}.pgm" for index in range(3)]
    rows = board.features(lines)
    assert board.calls == 6  # two segments of the NNIE for each line
    program = program_of(build)
    float_session = FloatSession(begins_on_the_cpu())
    for index, row in enumerate(rows):
        given = sample(folder, index)
        stored = simulate(program, quantized_inputs(program, Sample("", given)))
        real = [program.tensors[name].format.dequantize(stored[name]).ravel() for name in program.outputs]
        np.testing.assert_allclose(np.float64(row[1:]), np.concatenate(real), atol=1e-3)
        reference = float_session.run(given)
        exact = np.concatenate([reference[name].ravel() for name in program.outputs])
        assert np.corrcoef(np.float64(row[1:]), exact)[0, 1] > 0.999


def test_dumps_are_compared_from_the_fronts_last_result_on(project: tuple[Path, Path]):
    folder, build = project
    ours = our_values(build / "artifact", program_of(build))
    spread = FloatSession(begins_on_the_cpu()).run(sample(folder, 2))["spread"][0]
    np.testing.assert_allclose(ours["second", "input", 0][:5], spread, rtol=2 ** (1 / 256) - 1, atol=2**-11)
    assert ("first", "output", 0) not in ours


def test_a_front_is_no_segment_of_the_compiled_network():
    """The mapper's 8 segments behind it are within the limit; one more is not."""

    def chain(pairs: int) -> Model:
        net = Net()
        x = net.clip(net.input("data", 3, 16, 16), "begin")
        for index in range(pairs):
            x = net.clip(net.conv(x, (3, 3), f"conv{index}"), f"cpu{index}")
        return net.model(x)

    strict = Division("hi3516cv500", join_segments="none")
    assert len(divide(chain(4), strict).segments) == 9
    with pytest.raises(ModelError, match="a network has at most 8 segments; found 11"):
        divide(chain(5), strict)


def test_what_plan_refuses_of_the_cpu_alone_run_refuses(tmp_path: Path):
    recipe = write(tmp_path, custom="'*'", tags="")
    for command in (["plan"], ["run", "--out", str(tmp_path / "out")]):
        done = CliRunner().invoke(app, [*command, str(recipe)])
        assert isinstance(done.exception, ModelError), done.output
        assert "the NNIE runs at least one layer; found all" in str(done.exception)


def test_the_remedy_for_a_cpu_tag_behind_the_data_works():
    net = Net()
    exp = net.tag(net.node("Exp", [net.input("data", 3, 16, 16)], "exponential"), cpu=True)
    model = net.model(net.conv(exp, (3, 4), "conv"))
    with pytest.raises(ModelError, match="take `_cpu` off and name the layer in the option `custom`"):
        divide(model, Division("hi3516cv500"))
    again = Net()
    again.conv(again.node("Exp", [again.input("data", 3, 16, 16)], "exponential"), (3, 4), "conv")
    network = divide(again.model("conv"), Division("hi3516cv500", custom=("exponential",)))
    assert [segment.placement for segment in network.segments] == ["cpu", "npu"]


def test_an_stn_that_begins_on_the_cpu_is_told_what_works():
    model = stn_model()
    split = Division("hi3516cv500", custom=("stn_conv",))
    with pytest.raises(ModelError, match=r"STN, a part .* begins on the CPU, with stn_conv") as raised:
        parts_of(divide(model, split), split)
    assert "split_at_warp: false" in str(raised.value)
    whole = Division("hi3516cv500", custom=("stn_conv",), split_at_warp=False)
    network = divide(model, whole)
    (part,) = parts_of(network, whole)
    assert [segment.placement for segment in network.segments] == ["cpu", "npu", "cpu", "npu"]
    assert [spec.name for spec in part.network.graph.model.inputs] == ["face", "stn_relu"]
