"""Keys: misspelt, missing, twice, in the wrong place."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import Mistake, check_mistake

MISTAKES = (
    Mistake(
        "misspelt",
        "calibration:",
        "calibratoin:",
        "8:7",
        "unknown key 'calibratoin'",
        "did you mean 'calibration'?",
        "calibration:",
    ),
    Mistake(
        "misspelt section",
        "targets:",
        "target:",
        "9:1",
        "unknown key 'target'",
        "did you mean 'targets'?",
        "targets:",
    ),
    Mistake(
        "misspelt gate", "cosine:", "cosin:", "11:18", "unknown key 'cosin'", "did you mean 'cosine'?", "cosine:"
    ),
    Mistake("British", "color:", "colour:", "7:20", "unknown key 'colour'", "did you mean 'color'?", "color:"),
    Mistake(
        "option of a target",
        "gap8: {}",
        "gap8: {precison: int8}",
        "10:10",
        "unknown key 'precison'",
        "did you mean 'precision'?",
        "gap8: {precision: int8}",
    ),
    Mistake("missing", "nnkit: 1\n", "", "1:1", "the key 'nnkit' is missing", "add `nnkit: 1`", "nnkit: 1\n"),
    Mistake(
        "missing path",
        "  path: net.onnx\n",
        "",
        "3:1",
        "the key 'path' is missing",
        "add `path: net.onnx`",
        "  path: net.onnx\n",
    ),
    Mistake(
        "twice",
        "name: small",
        "name: small\nname: large",
        "3:1",
        "the key 'name' is given twice, first in line 2",
        "keep one of the two",
        "name: small",
    ),
    Mistake(
        "wrong level",
        "      preprocess: {color: gray, resize: {size: [40, 40]}}",
        "      color: gray\n      resize: {size: [40, 40]}",
        "7:7",
        "unknown key 'color'",
        "known keys: shape",
        "      preprocess: {color: gray, resize: {size: [40, 40]}}",
    ),
    Mistake(
        "both words",
        "color: gray",
        "color: gray, preset: imagenet",
        "7:27",
        "preset: imagenet is of rgb images",
        "write color: rgb, or mean and std instead",
        "color: gray, mean: 0.449, std: 0.226",
    ),
    Mistake(
        "key of a sweep",
        "  gap8: {}\n",
        "  gap8: {}\nsweep: {targets.gap8.precison: [int8, int16]}\n",
        "11:33",
        "unknown key 'precison'",
        "did you mean 'precision'?",
        "  gap8: {}\nsweep: {targets.gap8.precision: [int8, int16]}\n",
    ),
    Mistake(
        "one value of a sweep",
        "  gap8: {}\n",
        "  gap8: {}\nsweep: {targets.gap8.precision: [int8, int12]}\n",
        "11:40",
        "'precision' must be int16 or int8, but the text 'int12' was given",
        "did you mean 'int16'?",
        "  gap8: {}\nsweep: {targets.gap8.precision: [int8, int16]}\n",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)
