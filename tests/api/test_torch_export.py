"""`nnkit.torch.export`: what it writes computes what the module computes. PyTorch's own figures are the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import nnkit.torch
from nnkit.errors import ModelError, UsageError

torch = pytest.importorskip("torch", reason="CI cannot install it: PyTorch is heavier than all the rest")
nn = torch.nn


def network() -> object:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(256, 5)
    )


def ran(path: Path, **inputs: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(str(path)).run(None, inputs)[0]


def test_the_file_computes_what_the_module_computes_in_evaluation(tmp_path: Path) -> None:
    module, example = network(), torch.rand(1, 3, 8, 8)
    module.train()
    path = nnkit.torch.export(module, example, tmp_path / "made/net.onnx", output_names=["scores"])
    assert module.training
    assert [value.name for value in onnx.load(path).graph.output] == ["scores"]
    with torch.no_grad():
        expected = module.eval()(example).numpy()
    np.testing.assert_allclose(ran(path, image=example.numpy()), expected, rtol=1e-4, atol=1e-5)


def test_pixels_are_normalised_in_the_file(tmp_path: Path) -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    module = network().eval()
    pixels = torch.randint(0, 256, (1, 3, 8, 8)).float()
    normalised = (pixels / 255 - torch.tensor(mean).reshape(1, 3, 1, 1)) / torch.tensor(std).reshape(1, 3, 1, 1)
    path = nnkit.torch.export(module, normalised, tmp_path / "net.onnx", mean=mean, std=std)
    with torch.no_grad():
        expected = module(normalised).numpy()
    np.testing.assert_allclose(ran(path, image=pixels.numpy()), expected, rtol=1e-4, atol=1e-4)


def test_what_depends_on_the_example_alone_is_told(tmp_path: Path) -> None:
    class Noisy(nn.Module):
        def forward(self, x: object) -> object:
            return x + torch.rand(1, 3, 8, 8)

    class Cubic(nn.Module):
        def forward(self, x: object) -> object:
            return torch.linalg.svd(x)[1]

    with pytest.raises(ModelError, match="computes something else"):
        nnkit.torch.export(Noisy(), torch.rand(1, 3, 8, 8), tmp_path / "a.onnx")
    with pytest.raises(ModelError, match="PyTorch cannot export it"):
        nnkit.torch.export(Cubic(), torch.rand(1, 3, 8, 8), tmp_path / "b.onnx")
    with pytest.raises(UsageError, match="2 input names for 1 inputs"):
        nnkit.torch.export(network(), torch.rand(1, 3, 8, 8), tmp_path / "c.onnx", input_names=["a", "b"])


def test_an_example_that_the_module_does_not_take_is_told_with_its_shape(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"does not run on the example \(1x1x8x8\): .*3 channels"):
        nnkit.torch.export(network(), torch.rand(1, 1, 8, 8), tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()
