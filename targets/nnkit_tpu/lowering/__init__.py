"""From a restructured ONNX model to the ops that the TPU executes."""

from nnkit_tpu.lowering.build import lower

__all__ = ["lower"]
