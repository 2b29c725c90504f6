"""The cfg and how inputs are delivered: norm_type, means, camera frames, groups in order, refusals."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from nnie_networks import Net

from nnkit.caffe.schema import messages
from nnkit.errors import RecipeError
from nnkit.graph import InputSpec
from nnkit.preprocess import Preprocess
from nnkit.recipe import Preprocess as WrittenPreprocess
from nnkit.recipe import RecipePath
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.calibration_images import check_referenced, image_file, mean_file, pixels
from nnkit_nnie.mapper.cfg import CfgInput, environment, render_cfg
from nnkit_nnie.mapper.input_settings import InputSettings, doubled_normalization, input_settings
from nnkit_nnie.network import Network
from nnkit_nnie.options import NnieInput, NnieOptions
from nnkit_nnie.segments import divide

RGB = Preprocess.from_recipe(WrittenPreprocess(color="rgb"), (1, 3, 32, 48))


def settings(preprocess: dict, shape=(1, 3, 32, 48), image=True, asked: NnieInput | None = None, **options):
    chosen = NnieOptions(chip="hi3516cv500", inputs={} if asked is None else {"data": asked}, **options)
    spec = InputSpec("data", shape)
    given = Preprocess.from_recipe(WrittenPreprocess(**preprocess), shape)
    return input_settings([spec], {"data": given}, {"data": image}, chosen)[0]


def network(*inputs: str) -> Network:
    net = Net()
    ends = [net.conv(net.input(name, 3, 32, 48), (3, 4), f"conv_{name}") for name in inputs]
    return divide(net.model(*ends), Division("hi3516cv500"))


def keys(text: str) -> list[tuple[str, str]]:
    """The mapper reads `[key] value` lines."""
    found = []
    for line in text.splitlines():
        assert line.startswith("["), line
        assert "] " in line, line
        key, value = line[1:].split("] ", 1)
        found.append((key, value))
    return found


@pytest.mark.parametrize(
    ("preprocess", "form", "norm_type", "has_file"),
    [
        ({"color": "bgr"}, "text", 0, False),
        ({"color": "bgr", "mean": [104.0, 117.0, 123.0]}, "text", 2, True),
        ({"color": "bgr", "mean": [104.0, 117.0, 123.0]}, "binaryproto", 1, True),
        ({"color": "rgb", "scale": 1 / 256}, "text", 3, False),
        ({"color": "rgb", "mean": 127.0, "scale": 1 / 128}, "text", 5, True),
        ({"color": "rgb", "mean": 127.0, "scale": 1 / 128}, "binaryproto", 4, True),
    ],
)
def test_norm_type(preprocess: dict, form: str, norm_type: int, has_file: bool):
    found = settings(preprocess, mean_file=form)
    assert found.norm_type == norm_type
    assert (mean_file(found) is not None) == has_file
    assert found.rgb_order == preprocess["color"].upper()


@pytest.mark.parametrize("form", ["text", "binaryproto"])
def test_mean_files_hold_the_mean(form: str):
    found = settings({"color": "bgr", "mean": [104.0, 117.5, 123.0]}, mean_file=form)
    name, data = mean_file(found) or ("", b"")
    if form == "text":
        assert (name, data) == ("mean_data.txt", b"104\n117.5\n123\n")
        return
    blob = messages.BlobProto.FromString(data)
    assert (blob.num, blob.channels, blob.height, blob.width) == (1, 3, 32, 48)
    assert np.array(blob.data).reshape(3, -1)[:, 7].tolist() == [104.0, 117.5, 123.0]


def test_gray_takes_one_mean():
    found = settings({"color": "gray", "mean": 127.5}, shape=(1, 1, 32, 48))
    assert mean_file(found) == ("mean_data.txt", b"127.5\n")


def test_vector_is_not_normalised_by_the_chip():
    found = settings({}, shape=(1, 16), image=False)
    assert (found.image_type_number, found.norm_type, mean_file(found)) == (0, 0, None)
    assert settings({"mean": 3.0}, asked=NnieInput(image_type="vector")).norm_type == 0


@pytest.mark.parametrize(
    ("preprocess", "asked", "shape", "message"),
    [
        ({"scale": [1.0, 0.5, 0.25]}, None, (1, 3, 32, 48), "one scale for all channels"),
        ({"scale": 1 / 8192}, None, (1, 3, 32, 48), "above 1/4096"),
        ({"scale": -0.5}, None, (1, 3, 32, 48), "above 1/4096"),
        ({}, None, (1, 3, 7, 48), "sides of 8 to 4096"),
        ({}, None, (1, 3, 32, 4097), "sides of 8 to 4096"),
        ({}, NnieInput(image_type="yvu420sp"), (1, 3, 31, 48), "even sides"),
        ({}, NnieInput(image_type="yvu422sp"), (1, 3, 32, 47), "even sides"),
        ({}, NnieInput(image_type="yvu420sp"), (1, 1, 32, 48), "3 channels"),
    ],
)
def test_what_the_chip_cannot_do(preprocess, asked, shape, message):
    with pytest.raises(RecipeError, match=message):
        settings(preprocess, shape=shape, asked=asked)


@pytest.mark.parametrize(("image_type", "number"), [("u8", 1), ("yvu420sp", 3), ("yvu422sp", 5)])
def test_camera_frames(image_type, number):
    assert settings({}, asked=NnieInput(image_type=image_type)).image_type_number == number


def test_unknown_input_is_named():
    with pytest.raises(RecipeError, match="no input 'img'"):
        input_settings(
            [InputSpec("data", (1, 3, 32, 48))],
            {"data": RGB},
            {"data": True},
            NnieOptions(chip="hi3516cv500", inputs={"img": NnieInput()}),
        )


def test_a_real_cfg_is_reproduced(shared_dir: Path):
    """The settings of a published cfg give its keys and values (its own order of keys aside)."""
    real = dict(
        line.replace("]  ", "] ")[1:].split("] ", 1)
        for line in (shared_dir / "models" / "enet_cityscapes" / "model_inst.cfg").read_text().splitlines()
        if line.strip()
    )
    given = InputSettings("data", (1, 3, 512, 1024), "u8", 5, (0.0, 0.0, 0.0), 1.0, "BGR")
    options = NnieOptions(
        chip="hi3516cv500", batch_num=1, compile_mode=1, log_level=2, instruction_name="ENet_cityscapes"
    )
    text = render_cfg(network("data"), [CfgInput(given, "./image_ref_list.txt", "./mean.txt")], options, stem="./net")
    ours = dict(keys(text))
    same = set(real) - {"prototxt_file", "caffemodel_file", "instruction_name", "data_scale", "sparse_rate"}
    assert {key: ours[key] for key in same} == {key: real[key] for key in same}
    assert float(ours["data_scale"]) == float(real["data_scale"])
    assert float(ours["sparse_rate"]) == float(real["sparse_rate"])
    assert ours["instruction_name"] == Path(real["instruction_name"]).name


@pytest.mark.parametrize("chip", ["hi3559av100", "hi3516dv300"])
def test_three_inputs_have_a_group_each_in_order(chip):
    names = ("left", "right", "whole")
    inputs = [
        CfgInput(
            InputSettings(name, (1, 3, 32, 48), "u8", 2, (1.0, 2.0, 3.0), 1.0, "BGR"), f"./{name}.txt", "./m.txt"
        )
        for name in names
    ]
    options = NnieOptions(chip=chip, compress_mode="bypass", batch_num=0, log_level=3)
    found = keys(render_cfg(network(*names), inputs, options, stem="./net"))
    group = [value for key, value in found if key == "image_list"]
    assert group == ["./left.txt", "./right.txt", "./whole.txt"]
    start = [key for key, _ in found].index("image_list")
    assert [key for key, _ in found[start : start + 12]] == ["image_list", "image_type", "mean_file", "norm_type"] * 3
    single = dict(found)
    assert (single["compress_mode"], single["batch_num"], single["log_level"]) == ("1", "0", "3")
    assert "data_scale" not in single


def test_inputs_that_one_cfg_cannot_serve():
    def group(name: str, scale: float, order: str) -> CfgInput:
        return CfgInput(InputSettings(name, (1, 3, 32, 48), "u8", 3, (), scale, order), "a", "null")

    options = NnieOptions(chip="hi3516cv500")
    with pytest.raises(RecipeError, match="one scale for all inputs"):
        render_cfg(network("a", "b"), [group("a", 0.5, "RGB"), group("b", 0.25, "RGB")], options, stem="n")
    with pytest.raises(RecipeError, match="one order of colours"):
        render_cfg(network("a", "b"), [group("a", 0.5, "RGB"), group("b", 0.5, "BGR")], options, stem="n")


def test_keys_of_the_newer_mapper(tmp_path: Path):
    given = [CfgInput(InputSettings("data", (1, 3, 32, 48), "u8", 0, (), 1.0, "BGR"), "a", "null")]
    file = RecipePath.of(tmp_path / "g.txt")
    text = render_cfg(network("data"), given, NnieOptions(chip="hi3516cv500", gfpq_param_file=file), stem="n")
    assert ("gfpq_param_file", "gfpq_param.txt") in keys(text)
    with pytest.raises(RecipeError, match="reads no gfpq_param_file"):
        render_cfg(network("data"), given, NnieOptions(chip="hi3559av100", gfpq_param_file=file), stem="n")
    with pytest.raises(RecipeError, match="no ROI layer"):
        render_cfg(network("data"), given, NnieOptions(chip="hi3516cv500"), stem="n", roi_files=["r"])


@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
def test_copied_pictures_are_what_the_network_saw(color):
    """Another reader (OpenCV, as the mapper's) gets the same pixels in the order that the network has."""
    shape = (1, 1 if color == "gray" else 3, 32, 48)
    found = settings({"color": color, "mean": 100.0, "scale": 0.25}, shape=shape)
    raw = np.random.default_rng(0).integers(0, 256, shape)
    values = ((raw - 100.0) * 0.25).astype(np.float32)
    assert np.array_equal(pixels(found, values), raw[0])
    flag = cv2.IMREAD_GRAYSCALE if color == "gray" else cv2.IMREAD_COLOR
    read = cv2.imdecode(np.frombuffer(image_file(found, values), np.uint8), flag)
    planes = read[None] if color == "gray" else read.transpose(2, 0, 1)  # OpenCV gives blue, green, red
    assert np.array_equal(planes[::-1] if color == "rgb" else planes, raw[0])


def test_references_need_pictures_as_they_are():
    check_referenced({"data": RGB})
    for change in ({"flip": True}, {"crop": "center"}):
        given = Preprocess.from_recipe(WrittenPreprocess(color="rgb", **change), (1, 3, 32, 48))
        with pytest.raises(RecipeError, match="the mapper does not"):
            check_referenced({"data": given})


def test_doubled_normalisation_is_noted():
    net = Net()
    x = net.node("Mul", [net.input("data", 3, 32, 48), net.constant("s", 1 / 128)], "scale")
    divided = divide(net.model(net.conv(x, (3, 4), "conv")), Division("hi3516cv500"))
    twice = settings({"scale": 1 / 128})
    assert "normalised twice" in doubled_normalization(divided.graph, [twice])[0]
    assert doubled_normalization(divided.graph, [settings({})]) == ()
    assert doubled_normalization(network("data").graph, [twice]) == ()


def test_names_of_a_network_stay_one_line_of_code_on_the_page_for_people():
    name = "a`\x1b[31m\r\n# forged\u202e"
    part = SimpleNamespace(name=name, shape=(1, 2), image_type="f32", is_image=False, norm_type=0)
    segment = SimpleNamespace(index=0, placement="npu", layers=[name], inputs=[name, "b"], outputs=[name])
    values = {"chip": CHIPS["hi3516cv500"], "name": "net", "program": "net", "of_the_mapper": (), "networks": []}
    values |= {"segments": [segment], "settings": [part], "notes": [f"note of {name}"]}
    page = environment().get_template("README.md.j2").render(values)
    plain = "`a'\\x1b[31m\\r\\n# forged\\u202e`"
    assert f"- {plain} 1 x 2: f32.\n" in page
    assert f"1 layer: {plain}, `b` to {plain}\n" in page
    assert "- note of a`\\x1b[31m\\r\\n# forged\\u202e\n" in page
