"""ONNX Runtime for quantised models, with the same integers on every processor."""

from __future__ import annotations

import onnxruntime


def exact_session(model: bytes) -> onnxruntime.InferenceSession:
    """A session whose 8-bit products do not saturate.

    Its fast kernels add two products of bytes in 16 bits where an x86-64 has AVX2 or AVX-512 but no
    VNNI (ONNX Runtime's documentation of quantisation). The entry takes the kernels that do not.
    """
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
