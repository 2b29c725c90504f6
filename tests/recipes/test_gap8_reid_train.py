"""The default network's training: its loss and its export. Collected only where torch is installed."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
import torch


def test_exported_network_computes_what_was_trained() -> None:
    from export import to_onnx
    from network import DescriptorNet

    torch.manual_seed(0)
    network = DescriptorNet()
    with torch.no_grad():
        for name, value in network.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                value.uniform_(0.5, 1.5)
        network.eval()
        images = 255 * torch.rand(2, 1, 128, 128)
        expected = network(images).numpy()
    proto = to_onnx(network)
    assert proto.SerializeToString() == to_onnx(network).SerializeToString()
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"image": images.numpy()})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_lifted_structured_loss_agrees_with_its_definition() -> None:
    from train import lifted_structured_loss

    rng = np.random.default_rng(1)
    points, people = rng.normal(size=(9, 5)), np.arange(9) // 3
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    terms = []
    for i, j in itertools.combinations(range(9), 2):
        if people[i] != people[j]:
            continue
        total = sum(np.exp(1.5 - apart[i, k]) for k in range(9) if people[k] != people[i])
        total += sum(np.exp(1.5 - apart[j, k]) for k in range(9) if people[k] != people[j])
        terms.append(max(0.0, np.log(total) + apart[i, j]) ** 2 / 2)
    found = lifted_structured_loss(torch.from_numpy(points), torch.from_numpy(people), 1.5)
    assert float(found) == pytest.approx(np.mean(terms), rel=1e-5)
