"""The chips with an NNIE: which generation, how many cores, which mapper compiles for them, and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.constraints import Limits

ChipName: TypeAlias = Literal["hi3559av100", "hi3519av100", "hi3516cv500", "hi3516dv300", "hi3559v200"]
Generation: TypeAlias = Literal["1.1", "1.2"]


@dataclass(frozen=True)
class NnieLimits(Limits):
    """The numbers in the limits of layers, images and segments. A chip that differs says so in `CHIPS`.

    max_side: of channels, height and width. max_parameter: strides, dilations, paddings, and blocks of PassThrough.
    powers: exponents that a Power may have.
    """

    max_side: int = 4096
    max_kernel: int = 255
    max_parameter: int = 255
    max_group: int = 2048
    powers: tuple[float, ...] = (-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0)
    max_concat_inputs: int = 32
    normalize_eps: float = 1e-10
    min_image_side: int = 8
    max_image_side: int = 4096
    upsample_factor: int = 2
    max_segments: int = 8
    max_segment_tensors: int = 16
    max_roi_per_segment: int = 2
    max_roi: int = 4


@dataclass(frozen=True)
class Speed:
    """One core's, for `nnkit_nnie.estimates`.

    products_per_us: of 8 bits, padding included. piece_us: of a layer, or of a group of one.
    measured: fitted to public measurements on the chip; or else scaled from another chip's.
    """

    products_per_us: float
    weight_bytes_per_us: float
    piece_us: float
    measured: bool


@dataclass(frozen=True)
class Chip:
    """One system on chip.

    title: as its maker writes it. generation: of its NNIE. cores: NNIE cores. cpu: as GCC calls it.
    compiler: prefix of the cross compiler in the maker's SDK.
    arch_version: what the runtime compares with the compiled network; one for the other generation does not load.
    """

    title: str
    generation: Generation
    cores: int
    cpu: str
    compiler: str
    speed: Speed
    limits: NnieLimits = NnieLimits()

    @property
    def arch_version(self) -> int:
        """11 or 12: "arch_version(12) of input model should be 11!" is what a board says to the wrong one."""
        return 11 if self.generation == "1.1" else 12

    @property
    def mapper(self) -> str:
        """The mapper's usual file name."""
        return f"nnie_mapper_{self.arch_version}"

    @property
    def compiler_flags(self) -> str:
        """What the SDK's samples tell the compiler of the CPU."""
        soft = self.compiler.startswith("arm-")
        return f"-mcpu={self.cpu}" + (" -mfloat-abi=softfp -mfpu=neon-vfpv4" if soft else "")

    @property
    def template(self) -> str:
        """Name of the cfg template of its mapper."""
        return f"mapper_{self.arch_version}.cfg.j2"


_DV300 = Speed(219_000, 1_400, 1.10, True)
"""RetinaFace 640x640 17 ms (16 bits: 34), MobileFaceNet 10 ms."""
_AV100 = Speed(460_000, 1_400, 2.60, True)
"""VGG-SSD 300x300 89 ms, GoogLeNet 10 ms, MobileFaceNet 14 ms."""
_ARM, _ARM_V200, _ARM64 = "arm-himix200-linux-", "arm-himix100-linux-", "aarch64-himix100-linux-"


def _scaled(speed: Speed, factor: float) -> Speed:
    """By the ratio of the operations a second that the makers state; transfers and overheads stay."""
    return Speed(speed.products_per_us * factor, speed.weight_bytes_per_us, speed.piece_us, False)


CHIPS: Mapping[ChipName, Chip] = MappingProxyType(
    {
        "hi3559av100": Chip("Hi3559AV100", "1.1", 2, "cortex-a73.cortex-a53", _ARM64, _AV100),
        "hi3519av100": Chip("Hi3519AV100", "1.2", 1, "cortex-a53", _ARM, _scaled(_AV100, 1.0)),
        "hi3516cv500": Chip("Hi3516CV500", "1.2", 1, "cortex-a7", _ARM, _scaled(_DV300, 0.5)),
        "hi3516dv300": Chip("Hi3516DV300", "1.2", 1, "cortex-a7", _ARM, _DV300),
        "hi3559v200": Chip("Hi3559V200", "1.2", 1, "cortex-a7", _ARM_V200, _scaled(_DV300, 0.4)),
    }
)
