"""Networks as people export them, by both exporters of torch, on every target: `python -m benchmarks.zoo`."""
