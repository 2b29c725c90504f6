"""The onnx_qdq target: affine integers of 8 and 16 bits as an ONNX model with QuantizeLinear and DequantizeLinear."""

from nnkit_onnx_qdq.target import OnnxQdqTarget

TARGET = OnnxQdqTarget
