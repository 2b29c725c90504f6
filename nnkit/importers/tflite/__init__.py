"""TFLite (LiteRT) files: read by the schema package `tflite`, mapped here to ONNX, quantised ones to its QDQ form."""
