"""Families of torchvision, with ten classes and random weights; its own code, made smaller where it can be."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.with_torch import nn, torch


def _models() -> Any:
    """`torchvision.models`. Where torchvision's compiled operators do not load beside this torch, two of them are
    declared first, so that the package can be imported; no network of the zoo calls them."""
    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _models.library = library  # the declaration lasts as long as this object
        import torchvision
    return torchvision.models


def family(name: str, **options: Any) -> nn.Module:
    """A classifier of `torchvision.models` with ten classes."""
    return _models().get_model(name, weights=None, num_classes=10, **options)


def googlenet() -> nn.Module:
    return family("googlenet", aux_logits=False, init_weights=False)


def inception_v3() -> nn.Module:
    return family("inception_v3", aux_logits=False, init_weights=False)


def vgg11_bn() -> nn.Module:
    """Its plan at a quarter of the width, and fully connected layers of 128."""
    vgg = _models().vgg
    plan = [16, "M", 32, "M", 64, 64, "M", 128, 128, "M", 128, 128, "M"]
    head = nn.Sequential(nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Dropout(), nn.Linear(128, 10))
    return nn.Sequential(vgg.make_layers(plan, batch_norm=True), nn.AdaptiveAvgPool2d(2), head)


def alexnet() -> nn.Module:
    """Its convolutions, and one fully connected layer."""
    return nn.Sequential(_models().alexnet(weights=None).features, nn.Flatten(), nn.Linear(256, 10))


def convnext() -> nn.Module:
    """ConvNeXt of half the width and fewer blocks."""
    from functools import partial

    convnext = _models().convnext
    stages = ((48, 96, 2), (96, 192, 2), (192, 384, 2), (384, None, 1))
    settings = [convnext.CNBlockConfig(*stage) for stage in stages]
    return convnext.ConvNeXt(settings, num_classes=10, norm_layer=partial(convnext.LayerNorm2d, eps=1e-6))


def swin(version: int = 1) -> nn.Module:
    """Swin transformer of two stages, windows of 4."""
    module = _models().swin_transformer
    second = (
        {} if version == 1 else {"block": module.SwinTransformerBlockV2, "downsample_layer": module.PatchMergingV2}
    )
    return module.SwinTransformer([4, 4], 48, [2, 2], [2, 4], [4, 4], num_classes=10, **second)


def vit() -> nn.Module:
    """Vision transformer of 32x32 in patches of 8, three layers of 64."""
    return _models().VisionTransformer(32, 8, 3, 4, 64, 128, num_classes=10)


class _OutputsOf(nn.Module):
    """The network's named outputs as a tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.network(x).values())


def segmentation(name: str) -> nn.Module:
    """A segmentation network of torchvision with four classes."""
    return _OutputsOf(_models().get_model(name, weights=None, weights_backbone=None, num_classes=4))


class SsdLite(nn.Module):
    """Trunk and heads of torchvision's SSDlite: scores and box regressions of all anchors."""

    def __init__(self) -> None:
        super().__init__()
        whole = _models().get_model(
            "ssdlite320_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=4
        )
        self.trunk, self.head = whole.backbone, whole.head

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.head(list(self.trunk(x).values()))
        return found["cls_logits"].softmax(-1), found["bbox_regression"]
