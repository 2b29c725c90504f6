"""Damaged files against nnkit's readers: `python -m fuzz CLASS|all --count N --seed S [--json]`."""


class NothingToTryError(Exception):
    """What a class starts from is not here; the message says what is missing."""
