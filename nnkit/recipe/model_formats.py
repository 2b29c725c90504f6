"""Files of networks: which are read, and how the others become one that is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal

ModelFormat = Literal["onnx", "caffe", "tflite"]
FORMAT_OF_SUFFIX: Mapping[str, ModelFormat] = {".onnx": "onnx", ".prototxt": "caffe", ".tflite": "tflite"}

_TORCH = "export it: torch.onnx.export(net.eval(), example_input, 'net.onnx'), and name net.onnx"
_KERAS = (
    "export it in Keras 3: net = keras.saving.load_model(FILE); net(example_input); "
    "net.export('net.onnx', format='onnx'), and name net.onnx"
)
_TENSORFLOW = "convert it with tf2onnx (python -m tf2onnx.convert --help), and name the .onnx file"
_EXPORT: Mapping[str, str] = {
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".ckpt": _TORCH,
    ".safetensors": _TORCH,
    ".pt2": _TORCH,
    ".h5": _KERAS,
    ".keras": _KERAS,
    ".pb": _TENSORFLOW,
    ".caffemodel": "name the .prototxt, with the .caffemodel as `weights`",
}


def is_network(path: PurePath) -> bool:
    """Whether a file holds a network, by its suffix: one that is read, or one that has to be exported first."""
    return path.suffix.lower() in FORMAT_OF_SUFFIX or path.suffix.lower() in _EXPORT


def remedy_for(path: str) -> str:
    """What to do with a file whose suffix tells no format that is read."""
    return _EXPORT.get(PurePath(path).suffix.lower(), "name a .onnx, .tflite or .prototxt file")
