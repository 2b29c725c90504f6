"""Files and folders that are not there, or are something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from mistakes import Mistake, check_mistake

MISTAKES = (
    Mistake(
        "no model",
        "path: net.onnx",
        "path: net2.onnx",
        "4:9",
        "the model 'net2.onnx' does not exist",
        "it was looked for at",
        "path: net.onnx",
    ),
    Mistake(
        "a folder",
        "path: net.onnx",
        "path: images\n  format: onnx",
        "4:9",
        "the model 'images' is a folder",
        "name the file itself",
        "path: net.onnx",
    ),
    Mistake(
        "pytorch",
        "path: net.onnx",
        "path: net.pt",
        "4:9",
        "the format of 'net.pt' cannot be told",
        "torch.onnx.export",
        "path: net.onnx",
    ),
    Mistake(
        "tensorflow",
        "path: net.onnx",
        "path: net.pb",
        "4:9",
        "the format of 'net.pb' cannot be told",
        "tf2onnx",
        "path: net.onnx",
    ),
    Mistake(
        "weights of an ONNX file",
        "path: net.onnx",
        "path: net.onnx\n  weights: net.data",
        "5:12",
        "an ONNX file holds its weights itself",
        "remove `weights`",
        "path: net.onnx",
    ),
    Mistake(
        "address",
        "path: net.onnx",
        "path: https://host/net.onnx",
        "4:9",
        "is a URL; nothing is downloaded",
        "fetch the file and give its path",
        "path: net.onnx",
    ),
    Mistake(
        "glob",
        "images/*.png",
        "image/*.png",
        "8:29",
        "'image/*.png' matches no file",
        "it was looked for at",
        "images/*.png",
    ),
    Mistake(
        "folder for its files",
        "images/*.png",
        "images",
        "8:29",
        "'images' matches no file",
        "write images/*.png: 3 such files are there",
        "images/*.png",
    ),
    Mistake(
        "suffix",
        "images/*.png",
        "images/*.jpg",
        "8:29",
        "'images/*.jpg' matches no file",
        "write images/*.png: 3 such files are there",
        "images/*.png",
    ),
    Mistake("glob of folders", "images/*.png", "*", "net.onnx", "not a picture", "give a PNG", "images/*.png"),
    Mistake(
        "key",
        "version: 1.2.3",
        "version: 1.2.3, key: release.pem",
        "12:32",
        "the signing key 'release.pem' does not exist",
        "it was looked for at",
        "version: 1.2.3",
    ),
    Mistake(
        "table",
        "gap8: {}",
        "gap8: {calibration: {table: t.yaml}}",
        "10:31",
        "the calibration table 't.yaml' does not exist",
        "it was looked for at",
        "gap8: {}",
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)
