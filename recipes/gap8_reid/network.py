"""The descriptor network: the trunk of SqueezeNet 1.1 behind a 1x1 convolution from gray to three channels.

Input: raw pixels 0..255, [N, 1, 128, 128]; the normalisation is part of the graph. Output: the global average
of the last Fire module, 512 non-negative values. Every convolution of the trunk is followed by a batch
normalisation. Layers carry the names of the SqueezeNet they come from (`features.3.squeeze`, ...).
"""

from __future__ import annotations

import torch
from torch import nn

INPUT_SIZE = 128
DESCRIPTOR_SIZE = 512
PIXEL_MEAN = 117.0
PIXEL_DEVIATION = 58.0
FIRES: dict[int, tuple[int, int, int]] = {
    3: (64, 16, 64),
    4: (128, 16, 64),
    6: (128, 32, 128),
    7: (256, 32, 128),
    9: (256, 48, 192),
    10: (384, 48, 192),
    11: (384, 64, 256),
    12: (512, 64, 256),
}
"""Fire modules by their place in SqueezeNet 1.1: channels in, squeezed, and of each expansion."""
POOLS = (2, 5, 8)
"""Places of the 3x3 max poolings with stride 2."""


class ConvNorm(nn.Sequential):
    """Convolution, batch normalisation, Relu."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, *, stride: int = 1, pad: int = 0):
        super().__init__()
        self.add_module("conv", nn.Conv2d(channels_in, channels_out, kernel, stride, pad, bias=False))
        self.add_module("bn", nn.BatchNorm2d(channels_out))
        self.add_module("relu", nn.ReLU(inplace=True))


class Fire(nn.Module):
    """A squeeze convolution and the concatenation of a 1x1 and a 3x3 expansion of it."""

    def __init__(self, channels_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = ConvNorm(channels_in, squeezed, 1)
        self.expand1x1 = ConvNorm(squeezed, expanded, 1)
        self.expand3x3 = ConvNorm(squeezed, expanded, 3, pad=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        squeezed = self.squeeze(image)
        return torch.cat([self.expand1x1(squeezed), self.expand3x3(squeezed)], dim=1)


class DescriptorNet(nn.Module):
    """[N, 1, H, W] pixels 0..255 to [N, 512] descriptors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 1)
        self.features = nn.ModuleDict({"0": ConvNorm(3, 64, 3, stride=2)})
        for place in sorted((*FIRES, *POOLS)):
            self.features[str(place)] = Fire(*FIRES[place]) if place in FIRES else nn.MaxPool2d(3, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = self.conv1((image - PIXEL_MEAN) / PIXEL_DEVIATION)
        for layer in self.features.values():
            image = layer(image)
        return image.mean(dim=(2, 3))
