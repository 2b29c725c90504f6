"""Damaged files against nnkit's readers: `python -m fuzz CLASS|all --count N --seed S [--json]`."""
