"""The tpu target: Sophgo Tensor Computing Processor."""
