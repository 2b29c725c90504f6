"""Our own networks over time: key words, text, recurrent and attending."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.zoo.blocks import conv_unit, depthwise_unit
from benchmarks.zoo.with_torch import functional, nn, torch


def ds_cnn() -> nn.Module:
    """Depthwise and pointwise layers over 49 steps of 10 features."""
    first = nn.Sequential(nn.Conv2d(1, 64, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU())
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12)]
    return nn.Sequential(first, *(depthwise_unit(64, 64) for _ in range(4)), *head)


class _TimeBlock(nn.Module):
    """Two convolutions over time and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        pad = 4 * dilation
        self.body = nn.Sequential(
            nn.Conv1d(inputs, outputs, 9, stride, pad, dilation, bias=False),
            nn.BatchNorm1d(outputs),
            nn.ReLU(),
            nn.Conv1d(outputs, outputs, 9, 1, pad, dilation, bias=False),
            nn.BatchNorm1d(outputs),
        )
        self.short = nn.Sequential(nn.Conv1d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm1d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.short(x))


def tc_resnet() -> nn.Module:
    """Residual convolutions over time, strided."""
    blocks = [_TimeBlock(16, 24, 2), _TimeBlock(24, 32, 2), _TimeBlock(32, 48, 2)]
    return nn.Sequential(
        nn.Conv1d(40, 16, 3, 1, 1), *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(48, 12)
    )


def dilated_convolutions() -> nn.Module:
    """Residual convolutions over time, dilated; a result for every step."""
    return nn.Sequential(_TimeBlock(20, 16, dilation=1), _TimeBlock(16, 16, dilation=2), nn.Conv1d(16, 4, 1))


class Recurrent(nn.Module):
    """A GRU or LSTM over 20 steps, the last state classified."""

    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM], both_ways: bool = False, layers: int = 1) -> None:
        super().__init__()
        self.body = kind(20, 16, layers, batch_first=True, bidirectional=both_ways)
        self.last = nn.Linear(32 if both_ways else 16, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.body(x)
        return self.last(steps[:, -1])


class TextLine(nn.Module):
    """Characters of a line of text: convolutions, then an LSTM both ways over the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(conv_unit(1, 8, 3, 2), conv_unit(8, 16, 3, 2), nn.MaxPool2d((8, 1)))
        self.body, self.last = nn.LSTM(16, 16, bidirectional=True), nn.Linear(32, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = self.trunk(x).squeeze(2).permute(2, 0, 1)  # steps, batch, channels
        return self.last(self.body(columns)[0]).permute(1, 0, 2).log_softmax(-1)


def dense_autoencoder() -> nn.Module:
    """Fully connected layers that narrow to 8 and widen again, over 640 numbers."""
    sizes, layers = [640, 128, 128, 8, 128, 128], list[nn.Module]()
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 640))


def multilayer_perceptron() -> nn.Module:
    """Three fully connected layers with Tanh, and Softmax."""
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5), nn.Softmax(-1))


class Attending(nn.Module):
    """A transformer encoder of two layers. tokens: over ids of an embedding; otherwise over 20 features a step."""

    def __init__(self, *, tokens: bool) -> None:
        super().__init__()
        self.enter: nn.Module = nn.Embedding(100, 32) if tokens else nn.Linear(20, 32)
        self.register_buffer("place", torch.randn(1, 16, 32) * 0.1)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu" if tokens else "relu", batch_first=True)
        self.body, self.last = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(self.enter(x) + self.place).mean(1))


class UNetOneDimension(nn.Module):
    """A U-Net over time: down by a mean and by a maximum, up by a transposed convolution and by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((2, 8), (8, 16), (16, 24), (40, 16), (24, 8))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), nn.LeakyReLU(0.1)) for a, b in sizes
        )
        self.up, self.leave = nn.ConvTranspose1d(24, 24, 4, 2, 1), nn.Conv1d(8, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 2, steps] -> [1, 1, steps]."""
        first = self.blocks[0](x)
        second = self.blocks[1](functional.avg_pool1d(first, 2))
        third = self.blocks[2](functional.max_pool1d(second, 2))
        x = self.blocks[3](torch.cat([self.up(third), second], 1))
        x = functional.interpolate(x, scale_factor=2, mode="linear")
        return torch.tanh(self.leave(self.blocks[4](torch.cat([x, first], 1))))
