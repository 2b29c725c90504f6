"""The onnx_qdq target: affine 8-bit integers as an ONNX model with QuantizeLinear and DequantizeLinear."""

from nnkit_onnx_qdq.target import OnnxQdqTarget

TARGET = OnnxQdqTarget()
