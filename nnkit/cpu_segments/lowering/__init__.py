"""From ONNX nodes to kernel calls, a file for each family of operators."""
