"""The tpu target: Sophgo's Tensor Computing Processors."""

from nnkit_tpu.target import TpuTarget

TARGET = TpuTarget()
