"""Our own networks from pictures to pictures or classes, in the shapes that are common."""

from __future__ import annotations

from functools import partial
from typing import Literal

from benchmarks.zoo.blocks import Residual, SqueezeExcite, classifier, conv_unit, depthwise_unit
from benchmarks.zoo.with_torch import functional, nn, torch


class UNet(nn.Module):
    """Three levels with skip connections. up: how a map is enlarged."""

    def __init__(self, up: Literal["deconvolution", "nearest", "bilinear", "corners"]) -> None:
        super().__init__()
        self.down = nn.ModuleList([conv_unit(3, 8), conv_unit(8, 16), conv_unit(16, 32)])
        makers = {
            "deconvolution": lambda c: nn.ConvTranspose2d(c, c, 2, 2),
            "nearest": lambda _: nn.Upsample(scale_factor=2, mode="nearest"),
            "bilinear": lambda _: nn.Upsample(scale_factor=2, mode="bilinear"),
            "corners": lambda _: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        }
        self.up = nn.ModuleList([makers[up](32), makers[up](16)])
        self.fuse = nn.ModuleList([conv_unit(48, 16), conv_unit(24, 8)])
        self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down[0](x)
        second = self.down[1](self.pool(first))
        x = self.down[2](self.pool(second))
        x = self.fuse[0](torch.cat([self.up[0](x), second], 1))
        x = self.fuse[1](torch.cat([self.up[1](x), first], 1))
        return self.last(x)


def resnet8(norm: Literal["batch", "group"] = "batch") -> nn.Module:
    """The residual network of small benchmarks, 32x32."""
    made = nn.BatchNorm2d if norm == "batch" else partial(nn.GroupNorm, 4)
    stages = [Residual(16, 16, 1, made), Residual(16, 32, 2, made), Residual(32, 64, 2, made)]
    return nn.Sequential(conv_unit(3, 16), *stages, classifier(64))


def mobilenet_v1() -> nn.Module:
    """Depthwise and pointwise layers at a quarter of the width."""
    plan = [(8, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    return nn.Sequential(conv_unit(3, 8, 3, 2), *(depthwise_unit(*step) for step in plan), classifier(128))


class Ghost(nn.Module):
    """Half of the channels by a convolution, half of those by a cheap depthwise one; squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = conv_unit(3, 16, 3, 2)
        self.primary, self.cheap = conv_unit(16, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.excite, self.last = SqueezeExcite(32), classifier(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.primary(self.first(x))
        return self.last(self.excite(torch.cat([made, self.cheap(made)], 1)))


class FaceFeatures(nn.Module):
    """The shape of a mobile face network: PRelu, a global depthwise convolution, a vector of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            conv_unit(3, 16, 3, 2, nn.PReLU(16)),
            conv_unit(16, 32, 3, 2, nn.PReLU(32)),
            nn.Conv2d(32, 32, 16, groups=32, bias=False),
            nn.BatchNorm2d(32),
            nn.Flatten(),
            nn.Linear(32, 32),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.trunk(x))


def style_transfer() -> nn.Module:
    """Reflected padding and instance normalisation, the map made smaller and enlarged again."""

    def unit(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
        conv = nn.Conv2d(inputs, outputs, 3, stride)
        return nn.Sequential(nn.ReflectionPad2d(1), conv, nn.InstanceNorm2d(outputs, affine=True), nn.ReLU())

    enlarged = nn.Upsample(scale_factor=2, mode="nearest")
    return nn.Sequential(
        unit(3, 8), unit(8, 16, 2), unit(16, 16), enlarged, unit(16, 8), nn.Conv2d(8, 3, 1), nn.Tanh()
    )


def super_resolution() -> nn.Module:
    """Convolutions, and four channels that become one of twice the size."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2)
    )


def convolutional_autoencoder() -> nn.Module:
    """Strided convolutions down, transposed ones up."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 3, 2, 1, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 1, 3, 2, 1, 1),
        nn.Sigmoid(),
    )


class Mixer(nn.Module):
    """Fully connected layers over patches, then over channels."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.norm_1, self.norm_2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.tokens = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.channels = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm_1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm_2(x))
        return self.last(x.mean(1))


class TwoPictures(nn.Module):
    """How much two pictures differ: one trunk, the difference's magnitude, a score. Two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(conv_unit(1, 8, 3, 2), conv_unit(8, 16, 3, 2), classifier(16, 32))
        self.score = nn.Linear(32, 1)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.score(torch.abs(self.trunk(left) - self.trunk(right))))


class Depth(nn.Module):
    """A map of positive numbers: strided residual trunk, bilinear enlarging, exponential."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(conv_unit(3, 8, 3, 2), Residual(8, 16, 2))
        self.last = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        small = self.last(self.trunk(x))
        return torch.exp(functional.interpolate(small, size=x.shape[-2:], mode="bilinear") * 0.25)


class Restyled(nn.Module):
    """A generator's stage: a vector scales and shifts the normalised channels of a map (adaptive normalisation)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.style = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2 * width))
        self.enter, self.middle = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.leave = nn.InstanceNorm2d(width), nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        """[1, 3, H, W], [1, 16] -> [1, 3, 2 H, 2 W]."""
        scale, shift = self.style(style)[:, :, None, None].chunk(2, 1)
        x = functional.leaky_relu(self.norm(self.enter(x)), 0.2) * (1 + scale) + shift
        x = functional.leaky_relu(self.middle(functional.interpolate(x, scale_factor=2)), 0.2)
        return self.leave(x)


class SuperResolutionOnBicubic(nn.Module):
    """What pixel shuffle makes, added to the picture enlarged by a cubic filter."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.middle = nn.Conv2d(3, 16, 5, padding=2), nn.Conv2d(16, 27, 3, padding=1)
        self.slopes, self.shuffle = nn.PReLU(16), nn.PixelShuffle(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 3, H, W] -> [1, 3, 3 H, 3 W]."""
        large = functional.interpolate(x, scale_factor=3, mode="bicubic")
        return (self.shuffle(self.middle(self.slopes(self.enter(x)))) + large).clamp(0, 1)
