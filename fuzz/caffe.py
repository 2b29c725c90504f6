"""Prototxt and caffemodel files: damaged by token, line and byte, and files of 1 MiB that are made to cost much
(`caffe_bombs.py`); imported, and what imports exported again.

`caffe` starts from small networks of a layer or a few each, `caffe_published` from those of the folder NNKIT_SHARED,
of up to 228 layers (`benchmarks/caffe_published.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks.caffe_corpus import Files, cases
from benchmarks.caffe_published import published
from benchmarks.networks import shared_folder
from fuzz import NothingToTryError
from fuzz.caffe_bombs import bombs
from fuzz.damage import LARGEST_INPUT_BYTES

Seeds = list[Files]
_BOMBS_SHARE = 0.002
_NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "255",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967295",
    "1e38",
    "9" * 30,
    "0x7f",
]
_TOKENS = re.compile(rb'"[^"\n]*"|[A-Za-z_][A-Za-z_0-9]*|-?[0-9][0-9.eE]*|[{}:]|\s+|.', re.DOTALL)


def seeds(folder: Path) -> Seeds:
    """The small networks."""
    return corpus()


def published_seeds(folder: Path) -> Seeds:
    """Published networks. Raises NothingToTryError where there is no folder of them."""
    shared = shared_folder()
    if shared is None:
        raise NothingToTryError("NNKIT_SHARED names no folder of published networks")
    return published(shared)


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged network, or a bomb."""
    if chance.random() < _BOMBS_SHARE:
        size = int(LARGEST_INPUT_BYTES * 0.99)
        return read(bombs(size)[chance.choice(sorted(bombs(64)))])
    read(mutated(chance, given))


def read(files: Files) -> None:
    """Import and export. Raises what they raise."""
    from nnkit.caffe.export import export_caffe
    from nnkit.importers import caffe_model

    export_caffe(caffe_model(files.prototxt, files.caffemodel).model)


def corpus() -> list[Files]:
    """The small networks, some of them in the old form."""
    found = [Files(c.name, c.prototxt().encode(), c.caffemodel() if c.weights else b"") for c in cases()]
    old = b"""name: "old" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "a" type: RELU bottom: "data" top: "data" }
layers { name: "p" type: POOLING bottom: "data" top: "p" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layers { name: "l" type: SOFTMAX_LOSS bottom: "p" top: "loss" include { phase: TRAIN } }
"""
    return [*found, Files("old", old, b"")]


def mutated(chance: Random, seedlings: Sequence[Files]) -> Files:
    """A network of the seedlings with a few damages."""
    seedling = chance.choice(seedlings)
    text, weights = seedling.prototxt, seedling.caffemodel
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if weights and chance.random() < 0.4:
            weights = _damaged_bytes(weights, chance)
        else:
            text = _damaged_text(text, chance, seedlings)
    return Files(seedling.name, text[:LARGEST_INPUT_BYTES], weights[:LARGEST_INPUT_BYTES])


def _damaged_bytes(data: bytes, chance: Random) -> bytes:
    """Flipped bits, other bytes, cuts, repeats, long varints."""
    if not data:
        return chance.randbytes(chance.randrange(64))
    kind, at = chance.randrange(7), chance.randrange(len(data))
    if kind == 0:
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at + chance.randrange(9) :]
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + data[at + chance.randrange(1, 64) :]
    if kind == 4:
        part = data[at : at + chance.randrange(1, 256)]
        return data[:at] + part * chance.randrange(2, 2000) + data[at:]
    if kind == 5:
        head = data[:200]
        return head[: at % len(head)] + b"\xff" * 9 + b"\x01" + data[at % len(head) :]
    return data[:at] + chance.choice((b"\x7f", b"\xff", b"\x00", b"\x80")) * chance.randrange(1, 12) + data[at:]


def _damaged_text(text: bytes, chance: Random, seedlings: Sequence[Files]) -> bytes:
    """Damage by token, line or byte, and some bombs."""
    tokens = _TOKENS.findall(text) or [b""]
    kind, at = chance.randrange(12), chance.randrange(len(tokens))
    if kind <= 2:  # another number
        numbers = [i for i, token in enumerate(tokens) if token[:1].isdigit() or token[:1] == b"-"] or [at]
        tokens[chance.choice(numbers)] = chance.choice(_NUMBERS).encode()
    elif kind == 3:
        del tokens[at : at + chance.randrange(1, 6)]
    elif kind == 4:
        tokens[at:at] = tokens[at : at + chance.randrange(1, 30)] * chance.randrange(1, 40)
    elif kind == 5:
        tokens[at] = chance.choice(tokens)
    elif kind == 6:  # a layer or a piece of another network
        other = _TOKENS.findall(chance.choice(seedlings).prototxt)
        start = chance.randrange(len(other))
        tokens[at:at] = other[start : start + chance.randrange(1, 120)]
    elif kind == 7:
        names = [i for i, token in enumerate(tokens) if token[:1] == b'"'] or [at]
        tokens[chance.choice(names)] = tokens[chance.choice(names)]
    elif kind == 8:
        return _damaged_bytes(text, chance)
    elif kind == 9:
        bomb = chance.choice(
            (b"a {", b"layer {", b"a: [", b"<", b"layer { include {", b"x: 1 ", b'layer { name: "x" } ')
        )
        tokens[at:at] = [bomb * chance.randrange(1, 3000)]
    elif kind == 10:
        dims = " ".join(f"dim: {chance.choice(_NUMBERS)}" for _ in range(chance.randrange(1, 40)))
        tokens[at:at] = [f" shape {{ {dims} }} ".encode()]
    else:
        types = [i for i, token in enumerate(tokens) if token[:1] == b'"'] or [at]
        layers = re.findall(rb'type: ("[^"]*")', b" ".join(s.prototxt for s in seedlings))
        tokens[chance.choice(types)] = chance.choice(layers)
    return b"".join(tokens)
