"""`nnkit verify-wk`: a network that the vendor's mapper compiled, and files written value by value."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from click.testing import Result
from nnie_networks import Net
from nnie_wk_files import Numbers, compiled, records_8, records_16, resealed
from numpy.typing import NDArray
from small_project import write_project
from typer.testing import CliRunner

from nnkit.builds import open_build
from nnkit.cli import app
from nnkit.commands.verify_wk import remedy_for
from nnkit.errors import GateFailedError, ToolError, UsageError, UserFileError
from nnkit.target import CompiledComparison
from nnkit_nnie.gfpq.number_format import Gfpq
from nnkit_nnie.gfpq.ops import NnieWeighted
from nnkit_nnie.wk.comparison import compare_with_wk

WK = Path("models", "retinaface_mnet", "mnet_mergebn_640L_inst.wk")
CODES, UNCOMPRESSED = 419_734, 404_544  # of all records of convolutions, and of those that are not compressed
DEPTHWISE = 990 * 9 + 240 * 9  # of them; ten channels more have weights below what the mapper tells from zero


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def retinaface(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published network, BatchNorm folded, in 8 bits."""
    folder = tmp_path_factory.mktemp("retinaface")
    model = shared_dir / WK.parent / "retinaface_mnet"
    images = json.dumps(str(shared_dir / "models" / "ulfg" / "images" / "1*.jpg"))
    (folder / "recipe.yaml").write_text(
        f"nnkit: 1\nname: retinaface\nmodel:\n  path: {json.dumps(f'{model}.prototxt')}\n"
        f"  weights: {json.dumps(f'{model}.caffemodel')}\n  inputs:\n    data:\n      shape: [1, 3, 640, 640]\n"
        "      preprocess: {color: rgb, resize: {size: [640, 640]}}\n"
        f"      calibration: {{images: {images}, count: 1}}\n"
        f"targets:\n  nnie: {{chip: hi3516dv300, precision_table: false}}\nverify: {{images: {images}, count: 1}}\n"
    )
    done = cli("run", folder / "recipe.yaml", "--out", folder / "out", "--no-cache")
    assert done.exit_code == 0, done.output
    return folder / "out" / "retinaface" / "nnie"


def test_the_vendors_file(retinaface: Path, shared_dir: Path) -> None:
    """All codes and multipliers are ours, and all biases but two, which lie in the middle of a rounding."""
    done = cli("verify-wk", retinaface, shared_dir / WK, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["codes"], told["codes_equal"]) == (CODES, CODES)
    assert (told["biases"], told["biases_equal"], told["biases_tied"]) == (3430, 3428, 2)
    assert (told["multipliers"], told["multipliers_equal"]) == (1273, 1273)
    # Two deconvolutions of 64 channels, and ten depthwise channels of weights that are zero to the mapper.
    assert told["records_unread"] == 128 + 10
    assert (told["checksums"], told["checksums_equal"]) == (0, 0)
    assert [row["layer"] for row in told["layers"]] == ["rf_c2_lateral", "rf_c2_aggr"]
    assert any("another scale of their input" in note for note in told["notes"])
    text = cli("verify-wk", retinaface, shared_dir / WK).stdout
    assert "codes        419,734 of 419,734 equal\n" in text
    assert "2 more but for the last bit of a float" in text
    assert text.endswith("last bit     rf_c2_lateral: 1 of 64 biases\nlast bit     rf_c2_aggr: 1 of 64 biases\n")


def with_scales(build: Path, scale: Callable[[float], int]) -> dict[str, int]:
    """What the comparison counts where the codes of `build` are made with another z. scale: of 16 log2(largest)."""
    program = open_build(build).program
    ops = []
    for op in program.ops:
        if isinstance(op, NnieWeighted) and op.groups == 1:
            real = weights(build, op)
            z = scale(16 * math.log2(float(np.abs(real).max())))
            op = replace(op, weight=Gfpq(8, z).quantize(real), weight_scales=(Gfpq(8, z),))
        ops.append(op)
    found = compare_with_wk(build, replace(program, ops=tuple(ops)), build.parents[1] / "vendor.wk")
    return {each.name: each.equal for each in found.numbers}


def weights(build: Path, op: NnieWeighted) -> NDArray[np.float64]:
    """A layer's weights as the build emitted them."""
    from nnkit.caffe.weights import read_caffemodel

    path = build / "artifact" / "retinaface.caffemodel"
    return read_caffemodel(path.read_bytes(), "x")[op.layer].arrays[0].astype(np.float64)


def test_a_scale_per_layer_and_a_wrong_bias_are_caught_in_compressed_records(
    retinaface: Path, shared_dir: Path
) -> None:
    """Of depthwise layers, all of whose records are compressed."""
    program = open_build(retinaface).program
    depthwise = [op for op in program.ops if isinstance(op, NnieWeighted) and op.groups > 1]
    assert len(depthwise) == 15
    changes: dict[str, dict[str, Any]] = {}
    for op in depthwise[:8]:
        whole = Gfpq.for_magnitude(8, float(np.abs(weights(retinaface, op)).max()))
        real = weights(retinaface, op).reshape(op.weight.shape)
        changes[op.layer] = {"weight": whole.quantize(real), "weight_scales": (whole,) * op.groups}
    for op in depthwise[8:11]:
        changes[op.layer] = {"bias": op.bias * 1.001}
    found = comparison(retinaface, shared_dir / WK, **changes)
    counts = {each.layer: {count.name: count for count in each.numbers} for each in found.layers}
    assert set(changes) <= set(counts)
    for layer, change in changes.items():
        count = counts[layer]["codes" if "weight" in change else "biases"]
        assert count.equal + count.tied < count.compared / 2
        count = counts[layer]["multipliers"]
        assert (count.equal < count.compared / 2) == ("weight" in change)


def test_wrong_scales_are_caught(retinaface: Path, shared_dir: Path) -> None:
    """The formats that it could have been. 177,472 are published for a rounded z, where zeros do not count."""
    (retinaface.parents[1] / "vendor.wk").write_bytes((shared_dir / WK).read_bytes())
    assert with_scales(retinaface, lambda log: math.floor(log) - 127)["codes"] == CODES
    rounded = with_scales(retinaface, lambda log: round(log) - 127)["codes"] - DEPTHWISE  # whose z is left as it is
    assert rounded * UNCOMPRESSED / (CODES - DEPTHWISE) == pytest.approx(177_472, abs=10_000)
    assert with_scales(retinaface, lambda log: math.ceil(log) - 127)["codes"] - DEPTHWISE < CODES // 20
    assert with_scales(retinaface, lambda log: math.floor(log) - 128)["codes"] - DEPTHWISE < CODES // 20


def test_another_networks_file_is_refused_by_name(retinaface: Path, shared_dir: Path) -> None:
    mnist = shared_dir / "models" / "enet_cityscapes" / "inst_mnist_cycle.wk"
    done = cli("verify-wk", retinaface, mnist)
    assert isinstance(done.exception, UserFileError)
    assert "another network's: it has the input data 28x28x1, the output prob 1x1x10" in str(done.exception)
    assert "the input data 640x640x3, the output face_rpn_bbox_pred_stride32 20x20x8" in str(done.exception)


def test_damage(retinaface: Path, shared_dir: Path, tmp_path: Path) -> None:
    data = bytearray((shared_dir / WK).read_bytes())
    data[848 + 717056 + 3] ^= 0x40  # in the index
    (tmp_path / "x.wk").write_bytes(data)
    assert "its checksum is" in str(cli("verify-wk", retinaface, tmp_path / "x.wk").exception)
    (tmp_path / "x.wk").write_bytes(resealed(bytes(data)))
    done = cli("verify-wk", retinaface, tmp_path / "x.wk")
    assert isinstance(done.exception, ToolError)
    assert "record 0" in str(done.exception)


def small_build(folder: Path, compile_mode: int) -> Path:
    """Three convolutions, the second of four groups, and a fully connected layer."""
    net = Net(5)
    x = net.conv(net.input("image", 3, 8, 8), (3, 20), "first")
    x = net.conv(x, (20, 8), "grouped", group=4)
    x = net.conv(x, (8, 6), "last", kernel=1)
    net.fc(net.node("Flatten", [x], "flat"), (6 * 64, 4), "fc")
    grouped = next(c for c in net.constants if c.name == "grouped.w")
    sizes = np.repeat([1.0, 0.1, 3.0, 0.02], 2).reshape(8, 1, 1, 1)
    grouped.CopyFrom(
        onnx.numpy_helper.from_array((onnx.numpy_helper.to_array(grouped) * sizes).astype("f4"), "grouped.w")
    )
    (folder / "net.onnx").write_bytes(net.model("fc").onnx_bytes)
    cv2.imwrite(str(folder / "a.png"), np.random.default_rng(1).integers(0, 256, (8, 8, 3), np.uint8))
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: small\nmodel:\n  path: net.onnx\n  inputs:\n    image:\n      preprocess: {color: bgr}\n"
        "      calibration: {images: a.png}\nrestructure: []\n"
        f"targets:\n  nnie: {{chip: hi3516cv500, compile_mode: {compile_mode}}}\n"
    )
    done = cli("run", folder / "recipe.yaml", "--out", folder / "out", "--no-cache")
    assert done.exit_code == 0, done.output
    return folder / "out" / "small" / "nnie"


def gfpq_by_hand(values: NDArray[Any], bits: int) -> tuple[list[int], int]:
    """Codes and z of real values, one by one."""
    steps, top = (16, 127) if bits == 8 else (128, 1407)
    z = math.floor(steps * math.log2(max(abs(float(v)) for v in values.ravel()))) - top
    codes = []
    for value in (float(v) for v in values.ravel()):
        sign = value < 0
        small = abs(value) < 2.0 ** ((z + sign - steps) / steps)
        k = 0 if small else min(max(round(steps * math.log2(abs(value)) - z), int(sign)), top)
        codes.append((top + 1 if bits == 8 else 4096) if small else k | sign * (128 if bits == 8 else 4096))
    return codes, z


def small_wk(bits: int, folder: Path, **changes: Any) -> bytes:
    """What the mapper would write of the small build, worked out from its weights. changes: of `compiled`.

    Its inputs have the scales -60, -80 and -90. A record that is no layer's stands before the last convolution.
    """
    model = onnx.load(folder / "net.onnx")
    values = {c.name: onnx.numpy_helper.to_array(c).astype(np.float64) for c in model.graph.initializer}
    records: list[bytes | None] = []
    steps = 16 if bits == 8 else 128
    for name, groups, zx in (("first", 1, -60), ("grouped", 4, -80), ("last", 1, -90)):
        if name == "last":
            records.append(b"\1" * 192)
        for weight, bias in zip(
            np.split(values[f"{name}.w"], groups), np.split(values[f"{name}.b"], groups), strict=True
        ):
            codes, z = gfpq_by_hand(weight, bits)
            s = -(z + zx)
            numbers = Numbers(
                np.reshape(codes, weight.shape),
                [round(float(b) * 2.0 ** (s / steps)) for b in bias],
                round(2.0 ** ((42 if s > 11 * steps else 31) - s / steps)),
            )
            records += records_8(numbers) if bits == 8 else records_16(numbers)
            records.append(None)
    records.append(b"\2" * 600)
    return compiled(
        **{"inputs": [("image", (8, 8, 3))], "outputs": [("fc", (1, 1, 4))], "records": records, **changes}
    )


@pytest.mark.parametrize("bits", [8, 16])
def test_groups_and_sixteen_bits(bits: int, tmp_path: Path) -> None:
    """Every number of a file that was written by hand; two records are of no convolution."""
    build = small_build(tmp_path, 0 if bits == 8 else 1)
    (tmp_path / "x.wk").write_bytes(small_wk(bits, tmp_path))
    told = json.loads(cli("verify-wk", build, tmp_path / "x.wk", "--json").stdout)
    codes, biases = 20 * 27 + 8 * 45 + 48, 20 + 8 + 6
    assert (told["codes"], told["codes_equal"]) == (codes, codes)
    assert (told["biases"], told["biases_equal"]) == (biases, biases)
    assert (told["multipliers"], told["multipliers_equal"]) == (6, 6)
    assert told["records_unread"] == 2
    assert told["layers"] == []


def test_a_run_compares_what_the_mapper_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapper of a run, played by a script; then one whose file differs in one code, and in a scale."""
    small_build(tmp_path, 0)
    whole = small_wk(8, tmp_path)
    changed = bytearray(whole)
    changed[192 + 16 + 128 + 3 + 64] ^= 1  # a code of the first record
    tools = tmp_path / "tools"
    tools.mkdir()
    script = tools / "nnie_mapper_12"
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    for data, equal, layers in ((whole, 948, []), (resealed(bytes(changed)), 947, ["first"])):
        (tools / "made.wk").write_bytes(data)
        script.write_text(f"#!/bin/sh\ncp {tools / 'made.wk'} inst.wk\n")
        script.chmod(0o755)
        done = cli("run", tmp_path / "recipe.yaml", "--out", tmp_path / "out", "--no-cache")
        assert done.exit_code == 0, done.output
        report = json.loads((tmp_path / "out" / "small" / "nnie" / "report.json").read_text())
        numbers = report["details"]["compiled_numbers"]["inst.wk"]
        assert (numbers["codes"], numbers["codes_equal"]) == (948, equal)
        assert (numbers["biases"], numbers["biases_equal"]) == (34, 34)
        assert (numbers["multipliers"], numbers["multipliers_equal"]) == (6, 6)
        assert numbers["records_unread"] == 2
        assert numbers["checksums"] == 0
        assert [row["layer"] for row in numbers["layers"]] == layers
        line = (
            f"inst.wk      {equal} of 948 codes, 34 of 34 biases, 6 of 6 multipliers equal ours; 2 records not read"
        )
        assert line in done.output


def comparison(build: Path, path: Path, **changes: Mapping[str, Any]) -> CompiledComparison:
    """The comparison with some layers of the program changed."""
    program = open_build(build).program
    ops = tuple(replace(op, **changes.get(getattr(op, "layer", ""), {})) for op in program.ops)
    return compare_with_wk(build, replace(program, ops=ops), path)


def test_compressed_records_by_their_checksums(tmp_path: Path) -> None:
    """All of the first layer and half of the last; one of them of another number."""
    build = small_build(tmp_path, 0)
    (tmp_path / "x.wk").write_bytes(small_wk(8, tmp_path, compressed=(0, 1, 2, 3, 4, 15)))
    told = json.loads(cli("verify-wk", build, tmp_path / "x.wk", "--json").stdout)
    assert (told["checksums"], told["checksums_equal"]) == (6, 6)
    assert (told["codes"], told["codes_equal"]) == (360 + 16, 360 + 16)
    assert told["records_unread"] == 6 + 2
    program = open_build(build).program
    op = next(each for each in program.ops if getattr(each, "layer", "") == "first")
    assert isinstance(op, NnieWeighted)
    codes = op.weight.copy()
    codes[5, 1, 2, 0] ^= 1
    found = comparison(build, tmp_path / "x.wk", first={"weight": codes})
    assert [(each.layer, each.differs) for each in found.layers] == [("first", True)]
    assert found.numbers[-1].compared - found.numbers[-1].equal == 1


def test_what_differs_is_told(tmp_path: Path) -> None:
    build = small_build(tmp_path, 0)
    path = tmp_path / "x.wk"
    path.write_bytes(small_wk(8, tmp_path, generation=(1, 1)))
    whole = next(op for op in open_build(build).program.ops if getattr(op, "layer", "") == "grouped")
    assert isinstance(whole, NnieWeighted)
    real = onnx.numpy_helper.to_array(
        next(c for c in onnx.load(tmp_path / "net.onnx").graph.initializer if c.name == "grouped.w")
    ).astype(np.float64)
    codes, z = gfpq_by_hand(real, 8)
    one_scale = {"weight": np.reshape(codes, real.shape).astype(np.uint8), "weight_scales": (Gfpq(8, z),) * 4}
    found = comparison(build, path, grouped=one_scale)
    assert [each.layer for each in found.layers] == ["grouped"]
    assert found.layers[0].numbers[0].compared == 360
    assert found.layers[0].numbers[0].equal + found.layers[0].numbers[0].tied < 100  # those of the largest group
    assert any("NNIE 1.1, and Hi3516CV500 has 1.2" in note for note in found.notes)

    off = (*whole.weight_scales[:2], Gfpq(8, whole.weight_scales[2].z + 1), whole.weight_scales[3])
    found = comparison(build, path, grouped={"weight_scales": off})  # the third tells another scale of the input
    assert [(n.name, n.compared - n.equal) for n in found.layers[0].numbers][2] == ("multipliers", 1)

    shifted = {"bias": whole.bias + 0.25}
    found = comparison(build, path, grouped=shifted)
    assert [(n.name, n.compared - n.equal - n.tied) for n in found.layers[0].numbers] == [
        ("codes", 0),
        ("biases", 8),
        ("multipliers", 0),
        ("checksums", 0),
    ]
    data = bytearray(path.read_bytes())
    data[192 + 16 + 128 + 3 + 64] ^= 1  # a code of the first record
    data[192 + 16 + 128 + 3 + 4] ^= 1  # its multiplier
    path.write_bytes(resealed(bytes(data)))
    done = cli("verify-wk", build, path)
    assert isinstance(done.exception, GateFailedError)
    assert "numbers of 1 layer differ, the first is 'first'" in str(done.exception)
    assert "name the build whose files were compiled" in str(done.exception)
    assert "differs      first: 1 of 540 codes, 20 of 20 biases, 1 of 1 multipliers" in done.stdout


def test_layers_that_batch_norm_was_folded_into_are_named_as_such() -> None:
    report = {
        "rewrites": [{"name": "fold_batch_norm", "sites": ["bn1", "conv2 + bn2"]}, {"name": "other", "sites": ["c"]}],
        "layers": [
            {"name": "conv1", "origins": ["conv1", "bn1"]},
            {"name": "conv2", "origins": ["conv2", "bn2"]},
            {"name": "fc", "origins": ["fc"]},
        ],
    }
    each = remedy_for(report, ["conv1", "conv2"])
    assert "folds BatchNorm into each of these" in each
    assert "this build's own artifact" in each
    assert remedy_for(report, ["conv1", "fc"]).endswith("; the build folds BatchNorm into 1 of these")
    assert "BatchNorm" not in remedy_for(report, ["fc"])
    assert all("training" not in remedy_for(report, [name]) for name in ("conv1", "fc"))


def test_refusals(tmp_path: Path) -> None:
    build = small_build(tmp_path, 0)
    path = tmp_path / "x.wk"

    def refused(data: bytes) -> str:
        path.write_bytes(data)
        done = cli("verify-wk", build, path)
        assert isinstance(done.exception, UserFileError)
        return str(done.exception)

    other_size = refused(small_wk(8, tmp_path, inputs=[("image", (8, 16, 3))]))
    assert "it has the input image 8x16x3, and this build the input image 8x8x3" in other_size
    assert "no records have the number and size" in refused(small_wk(8, tmp_path, records=[b"x" * 128] * 5))
    assert "it holds 2000 records" in refused(small_wk(8, tmp_path, records=[b"x"] * 2000))
    assert "the layers are not" in refused(small_wk(16, tmp_path))
    (build / "artifact" / "segments.json").unlink()
    assert "the list of segments" in refused(small_wk(8, tmp_path))


def test_other_targets_have_none(tmp_path: Path) -> None:
    recipe = write_project(tmp_path)
    done = cli("run", recipe, "--target", "gap8", "--out", tmp_path / "out", "--no-cache", "--no-qemu")
    assert done.exit_code == 0, done.output
    (build,) = (tmp_path / "out").glob("*/gap8")
    done = cli("verify-wk", build, tmp_path / "x.wk")
    assert isinstance(done.exception, UsageError)
    assert "verify-wk is for builds of nnie" in str(done.exception)
