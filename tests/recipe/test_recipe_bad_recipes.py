"""Wrong recipes: each with the line and column where a reader would look, and words that lead to the right one.

The places are found by searching the recipe's text for a marker, not by running the loader.
"""

from __future__ import annotations

import pytest

from nnkit.errors import ExitCode
from nnkit.recipe import InvalidRecipeError

GOOD = """\
nnkit: 1
name: small
model:
  path: net.onnx
  inputs:
    image:
      shape: [1, 3, 96, 112]
      preprocess: {color: rgb, resize: {size: [96, 112]}}
      calibration: {images: faces/*.pgm, count: 10}
restructure: [fold_batch_norm]
tags: {hp: [conv_1], cpu: []}
calibration: {method: max}
targets:
  toy: {precision: int16, memory: {l1: 64KiB}}
postprocess:
  - {kind: match, threshold: 10.5}
verify: {images: held_out/*.pgm, gates: {cosine: 0.999}}
release: {version: 1.0.0}
"""

# what is replaced, by what, the marker of the place (the last one of this text), reason, remedy
CASES = [
    ("name: small", "nam: small", "nam:", "unknown key 'nam'", "did you mean 'name'? known keys: nnkit, name, model"),
    ("name: small", "", "nnkit: 1", "the key 'name' is missing", "add `name: face_reid`"),
    ("nnkit: 1", "nnkit: 2", "2\n", "this nnkit reads recipes of format 1, but the number 2 was given", "nnkit: 1"),
    ("small", "a/b", "a/b", "'a/b' cannot name a folder on every system", "letters, digits"),
    ("small", "12", "12\n", "'name' must be text, but the number 12 was given", "`name: face_reid`"),
    ("net.onnx", "net.pb", "net.pb", "the format of 'net.pb' cannot be told", "format: onnx"),
    ("net.onnx", "net.prototxt", "net.prototxt", "a Caffe network needs its weights", "weights: net.caffemodel"),
    ("net.onnx", "net.onnx\n  weights: w.bin", "w.bin", "an ONNX file holds its weights itself", "remove `weights`"),
    ("net.onnx", "net.onnx\n  simplify: yes", "yes", "'simplify' must be true or false", "write true"),
    ("net.onnx", "net.onnx\n  simplify: Off", "Off", "the text 'Off' was given", "write false"),
    ("net.onnx", "https://x.org/net.onnx", "https", "is a URL; nothing is downloaded", "fetch the file"),
    ("path: net.onnx", "paht: net.onnx", "paht", "unknown key 'paht'", "did you mean 'path'?"),
    ("path: net.onnx\n", "", "model:", "the key 'path' is missing", "add `path: net.onnx` (The network"),
    (
        "model:\n  path",
        "model: [1]\nm:\n  path",
        "[1]",
        "'model' must be a section of keys, but a list",
        "write a sec",
    ),
    ("[1, 3, 96, 112]", "[2, 3, 96, 112]", "2, 3", "the batch (first number of the shape) is 2", "write 1 there"),
    ("[1, 3, 96, 112]", "[3, 96, 112]", "[3, 96, 112]", "but the shape has 3", "[1, channels, height, width]"),
    ("[1, 3, 96, 112]", '[1, 3, "96", 112]', '"96"', "'shape[2]' must be a whole number", "write 96 without quotes"),
    ("[1, 3, 96, 112]", "[1, 3, 96.0, 112]", "96.0", "'shape[2]' must be a whole number", "write 96"),
    ("[1, 3, 96, 112]", "[1, 3, 0, 112]", "0, 112", "'shape[2]' must be at least 1, but the number 0", "at least 1"),
    ("[1, 3, 96, 112]", "96", "96\n", "'shape' must be a list, but the number 96", "`shape: [1, 1, 128, 128]`"),
    ("[1, 3, 96, 112]", "[1, 1, 96, 112]", "rgb", "color rgb gives 3 channels, the shape has 1", "write gray"),
    ("color: rgb", "color: grey", "grey", "'color' must be gray, rgb or bgr, but the text 'grey'", "mean 'gray'?"),
    (
        "color: rgb",
        "color: rgb, mean: [1, 2]",
        "[1, 2]",
        "mean has 2 numbers, but color: rgb has 3",
        "one number, or 3",
    ),
    ("color: rgb", "mean: [1, 2]", "[1, 2]", "mean has 2 numbers, but the input has 3", "give one number, or 3"),
    ("color: rgb", "color: rgb, scale: 0", "0, resize", "a scale of 0 would erase the image", "0.0078125"),
    ("color: rgb", "color: rgb, scale: [1, a, 1]", "a, 1]", "'scale[1]' must be a number", "`scale: 0.0078125`"),
    ("color: rgb", "color: rgb, mean: .inf", ".inf", "'mean' must be a finite number", "`mean: [0.0]`"),
    ("color: rgb", "color: rgb, crop: centre", "centre", "'crop' must be center", "did you mean 'center'?"),
    ("color: rgb", "color: rgb, crop: 5", "5, resize", "a section of keys or 'center', but the number 5", "`crop: {"),
    ("color: rgb", "color: rgb, crop: {left: 1}", "crop:", "the key 'top' is missing", "add `top: ...` (First row"),
    ("[96, 112]}}", "[112, 96]}}", "[112, 96]", "but the input is [96, 112]", "write size: [96, 112]"),
    ("[96, 112]}}", "[96]}}", "[96]", "'size' has too few items (1)", "`size: [128, 128]`"),
    ("[96, 112]}}", "[96, 112, 3]}}", "[96, 112, 3]", "'size' must have at most 2 items, but has 3", "[128, 128]"),
    ("[96, 112]}}", "[96, 112], filter: linear}}", "linear", "but the text 'linear'", "did you mean 'bilinear'?"),
    ("count: 10", "count: 0", "0}\nrestructure", "'count' must be at least 1, but the number 0", "at least 1"),
    ("count: 10", "count: all", "all", "'count' must be a whole number, but the text 'all'", "a whole number"),
    ("faces/*.pgm", "[]", "[], count", "'images' must have at least 1 item, but has 0", "`images: faces/*.pgm`"),
    ("faces/*.pgm", "7", "7, count", "'images' must be text, but the number 7", "`images: faces/*.pgm`"),
    ("[fold_batch_norm]", "[a, b, a]", "a]\n", "the rule 'a' is listed twice", "keep one"),
    ("[fold_batch_norm]", "fold_batch_norm", "fold", "'restructure' must be a list", "write [fold_batch_norm]"),
    ("hp: [conv_1]", "hp: conv_1", "conv_1", "must be a list or 'auto', but the text 'conv_1'", "write [conv_1]"),
    ("hp: [conv_1]", "hp: Auto", "Auto", "'hp' must be auto, but the text 'Auto'", "did you mean 'auto'?"),
    ("method: max", "method: mean", "mean}", "'method' must be auto, max, percentile, mse or kl", "mse"),
    ("method: max", "percentile: 99.0", "99.0", "percentile has no effect without a method", "method: percentile"),
    (
        "method: max",
        "headroom: 0.5",
        "0.5}\ntargets",
        "'headroom' must be at least 1, but the number 0.5",
        "at least 1",
    ),
    (
        "method: max",
        "corrections: [equalize, bias]",
        "bias]",
        "'corrections[1]' must be equalize, balance, raise_largest, bias_correction, room_for_unseen, "
        "tune_ranges, refine_ranges, adaround, float_inputs or float_outputs, but the text 'bias'",
        "bias_correction",
    ),
    ("method: max", "bad_images: 1", "1}", "'bad_images' must be less than 1", "less than 1"),
    ("calibration: {method: max}", "calibration:", "calibration:\n", "but nothing was given", "or remove the key"),
    ("  toy:", "  toi:", "toi", "no target 'toi' is installed", "did you mean 'toy'? installed targets: other, toy"),
    ("int16", "int12", "int12", "'precision' must be int8 or int16", "did you mean 'int16'?"),
    ("l1: 64KiB", "l1: 64kb", "64kb", "the unit 'kb' is not used here", "write 64KiB"),
    ("l1: 64KiB", "l1: lots", "lots", "'lots' is not a size in bytes", "512KiB, 1.5MiB"),
    ("l1: 64KiB", "l3: 64KiB", "l3", "unknown key 'l3'", "known keys: l1, l2"),
    ("precision: int16", "cores: 9", "9, mem", "'cores' must be at most 8, but the number 9", "at most 8"),
    ("precision: int16", "fast: 1", "1, mem", "'fast' must be true or false, but the number 1", "write true"),
    ("precision: int16", "order: fast", "fast", "'order' must be a list or 'auto', but the text", "write [fast]"),
    ("precision: int16", "formats: ''", "''", "a path is empty", "name a file"),
    (
        "precision: int16",
        "tags: {hpp: []}",
        "hpp",
        "unknown key 'hpp'",
        "did you mean 'hp'? known keys: hp, budget, cpu",
    ),
    ("match", "mach", "mach", "'kind' must be face_crop", "'match'?"),
    ("kind: match, ", "", "{threshold", "the key 'kind' is missing", "says what this is: face_crop, match, "),
    ("threshold: 10.5", "threshold: -1", "-1", "'threshold' must be at least 0", "at least 0"),
    (", threshold: 10.5", "", "{kind", "the key 'threshold' is missing", "add `threshold: 10.5`"),
    ("threshold: 10.5", "threshold: 1, capcity: 3", "capcity", "unknown key 'capcity'", "did you mean 'capacity'?"),
    (
        "  - {kind",
        "  - {kind: face_crop, size: [9, 9]}\n  - {kind",
        "[9, 9]",
        "makes an input of shape",
        "square gray",
    ),
    (
        "  - {kind",
        "  - {kind: match, threshold: 1}\n  - {kind",
        "match, threshold: 10",
        "second",
        "k",
    ),
    ("  - {kind", "  - {kind: face_crop, size: [9, 8]}\n  - {kind", "[9, 8]", "the crop is square", "size: [9, 9]"),
    ("held_out/*.pgm", "{imag: a.png}", "a.png", "the model section has no input 'imag'", "inputs: image"),
    ("cosine: 0.999", "cosine: 2", "2}}", "'cosine' must be at most 1, but the number 2", "at most 1"),
    ("cosine: 0.999", "cosine: high", "high", "'cosine' must be a number", "for example `cosine: 0.999`"),
    ("cosine: 0.999", "sqnr: 40", "sqnr", "unknown key 'sqnr'", "did you mean 'sqnr_db'?"),
    ("1.0.0", "1.0", "1.0}", "'version' must be text, but the number 1.0", "for example `version: 1.0.0`"),
    ("1.0.0", "v1", "v1", "'version' has not the right form: the text 'v1'", "for example `version: 1.0.0`"),
    ("release:", "relaese:", "relaese", "unknown key 'relaese'", "did you mean 'release'?"),
    ("targets:\n", "targits:\n", "targits", "unknown key 'targits'", "did you mean 'targets'?"),
]


@pytest.mark.parametrize(("old", "new", "marker", "reason", "remedy"), CASES)
def test_place_reason_and_remedy(load, old: str, new: str, marker: str, reason: str, remedy: str) -> None:
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    before = text[: text.rindex(marker)]
    place = f"recipe.yaml:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    with pytest.raises(InvalidRecipeError) as caught:
        load(text)
    assert caught.value.exit_code == ExitCode.USER
    found = [problem for problem in caught.value.problems if reason in problem.reason]
    assert found, str(caught.value)
    assert found[0].where.startswith(place)
    assert remedy in found[0].remedy
    for jargon in ("Input should", "type=", "pydantic", "tuple", "dict", "NoneType", "Value error"):
        assert jargon not in str(caught.value)


def test_the_recipe_they_are_made_from_is_good(load) -> None:
    assert load(GOOD).model.inputs["image"].shape == (1, 3, 96, 112)


def test_auto_needs_gates(load) -> None:
    text = GOOD.replace("hp: [conv_1]", "hp: auto").replace(", gates: {cosine: 0.999}", "")
    with pytest.raises(InvalidRecipeError, match="has no gate") as caught:
        load(text)
    assert caught.value.where == "recipe.yaml:11:12"
    text = GOOD.replace("precision: int16", "tags: {hp: auto}").replace(", gates: {cosine: 0.999}", "")
    with pytest.raises(InvalidRecipeError, match="has no gate") as caught:
        load(text)
    assert caught.value.where == "recipe.yaml:14:20"


def test_several_inputs_need_names(load) -> None:
    text = GOOD.replace("    image:\n", "    second: {shape: [1, 8]}\n    image:\n")
    with pytest.raises(InvalidRecipeError, match="the network has 2 inputs") as caught:
        load(text)
    assert caught.value.remedy == "write images: {second: ..., image: ...}"


def test_all_problems_come_at_once_in_the_order_of_the_lines(load) -> None:
    text = GOOD.replace("small", "a/b").replace("count: 10", "count: 0").replace("int16", "int12")
    text = text.replace("1.0.0", "1").replace("tags:", "tgs:")
    with pytest.raises(InvalidRecipeError) as caught:
        load(text)
    lines = [int(problem.where.split(":")[1]) for problem in caught.value.problems]
    assert lines == [2, 9, 11, 14, 18]
    message = str(caught.value)
    assert message.startswith("recipe.yaml: 5 problems in the recipe\n  recipe.yaml:2:7: ")
    assert message.count("\n    fix: ") == 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 2]", "a recipe is a section of keys"),
        ("hello", "a recipe is a section of keys"),
        ("nnkit: 1\nname: a\nmodel: {path: a.onnx}\n", "the key 'targets' is missing"),
        ("nnkit: 1\nname: a\nmodel: {path: a.onnx}\ntargets: {}\n", "'targets' names no target"),
        ("nnkit: 1\nname: a\nmodel: {path: a.onnx}\ntargets: [toy]\n", "'targets' must be a section of keys"),
        ("nnkit: 1\nname: a\nmodel: {path: a.onnx}\ntargets: {toy: 3}\n", "'toy' must be a section of keys"),
    ],
)
def test_shapes_of_whole_recipes(load, text: str, reason: str) -> None:
    with pytest.raises(InvalidRecipeError) as caught:
        load(text)
    assert reason in caught.value.reason


def test_problems_in_a_fragment_are_placed_there(load, write) -> None:
    write("parts/model.yaml", "path: net.onnx\ninputs:\n  image: {shap: [1, 8]}\n")
    with pytest.raises(InvalidRecipeError) as caught:
        load("nnkit: 1\nname: a\nmodel: !include parts/model.yaml\ntargets: {toy: {}}\n")
    assert caught.value.where == "parts/model.yaml:3:11"


def test_thousands_of_problems_are_counted_and_some_shown(load) -> None:
    with pytest.raises(InvalidRecipeError) as caught:
        load(GOOD.replace("[fold_batch_norm]", "[" + "1, " * 3_000 + "]"))
    assert len(caught.value.problems) == 3_000
    assert str(caught.value).endswith("\n  ... and 2960 more")
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize(
    "text",
    [
        "a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 25_000 + "]",
        "a: &a [" + "x," * 5_000 + "]\nb: [" + "*a," * 20 + "]",
        "a: &a {" + ", ".join(f"k{i}: 1" for i in range(100)) + "}\nb: &b\n  <<: [" + "*a," * 9_000 + "]",
    ],
    ids=["a long text", "a long list", "a merge"],
)
def test_aliases_do_not_make_a_small_file_large(load, text: str) -> None:
    with pytest.raises(InvalidRecipeError, match="the recipe expands to more than") as caught:
        load(f"{GOOD}\n{text}\n")
    assert "use fewer aliases" in str(caught.value)


def test_long_values_are_cut(load) -> None:
    with pytest.raises(InvalidRecipeError) as caught:
        load(GOOD.replace("int16", "x" * 5000).replace("rgb", '"\\e[31m' + "y" * 500 + '"'))
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)
