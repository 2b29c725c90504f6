"""Blocks that several of the zoo's own networks are made of."""

from __future__ import annotations

from benchmarks.zoo.with_torch import nn, torch


def conv_unit(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, act: nn.Module | None = None) -> nn.Module:
    """Convolution, batch normalisation, activation (None: Relu)."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU() if act is None else act)


def depthwise_unit(inputs: int, outputs: int, stride: int = 1, act: nn.Module | None = None) -> nn.Module:
    """A depthwise 3x3 and a pointwise convolution, each with its normalisation and activation (None: Relu)."""
    deep = nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)
    first = nn.Sequential(deep, nn.BatchNorm2d(inputs), nn.ReLU() if act is None else act)
    return nn.Sequential(first, conv_unit(inputs, outputs, 1, act=act))


class Residual(nn.Module):
    """Two 3x3 units and a shortcut. norm: makes the normalisation of so many channels."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, norm: type[nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            norm(outputs),
        )
        plain = stride == 1 and inputs == outputs
        short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))
        self.short: nn.Module = nn.Identity() if plain else short

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.short(x))


class SqueezeExcite(nn.Module):
    """A factor for each channel, made of the channels' means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.make = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels // 4, 1),
            nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.make(x)


def classifier(channels: int, classes: int = 10) -> nn.Module:
    """Mean over the map, a fully connected layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
