"""Mutated prototxt and caffemodel files against the Caffe reader: `python -m benchmarks.caffe_fuzz`.

Every input starts from a network of the corpus, is damaged by a generator with its own number as seed, and is
imported; what imports is exported again. An input passes when that succeeds or ends in one of nnkit's own errors,
within the time limit, in a process whose memory may grow by one GiB at most. Any other exception, a crash or a hang
is reported with the number, so that `--first N --count 1` shows it again. Files of one MiB that are made to cost much
(`caffe_bombs.py`) are tried first, under the same limits.

The networks are small ones, a layer or a few each; with `--published` those of the folder NNKIT_SHARED, of up to 228
layers (`caffe_published.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from benchmarks.caffe_bombs import bombs
from benchmarks.caffe_corpus import Files, cases
from benchmarks.caffe_published import published
from benchmarks.networks import shared_folder

GIB = 1 << 30
LIMIT_SECONDS = 10
LARGEST_INPUT = 1 << 20
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


def corpus() -> list[Files]:
    """The small networks, some of them in the old form."""
    found = [Files(c.name, c.prototxt().encode(), c.caffemodel() if c.weights else b"") for c in cases()]
    old = b"""name: "old" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { name: "a" type: RELU bottom: "data" top: "data" }
layers { name: "p" type: POOLING bottom: "data" top: "p" pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layers { name: "l" type: SOFTMAX_LOSS bottom: "p" top: "loss" include { phase: TRAIN } }
"""
    return [*found, Files("old", old, b"")]


def mutated(number: int, seedlings: list[Files]) -> Files:
    """Input number `number`: the same files for the same number."""
    chance = random.Random(number)
    seedling = chance.choice(seedlings)
    text, weights = seedling.prototxt, seedling.caffemodel
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        if weights and chance.random() < 0.4:
            weights = _damaged_bytes(weights, chance)
        else:
            text = _damaged_text(text, chance, seedlings)
    return Files(seedling.name, text[:LARGEST_INPUT], weights[:LARGEST_INPUT])


def _damaged_bytes(data: bytes, chance: random.Random) -> bytes:
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


def _damaged_text(text: bytes, chance: random.Random, seedlings: list[Files]) -> bytes:
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


def attempt(files: Files) -> str:
    """Import, and export what imports: "imported", "refused <error>", or a traceback of what must not be."""
    from nnkit.caffe.export import export_caffe
    from nnkit.errors import InternalError, NnkitError
    from nnkit.importers import caffe_model

    try:
        model = caffe_model(files.prototxt, files.caffemodel).model
        export_caffe(model)
    except InternalError:
        return traceback.format_exc()
    except NnkitError as error:
        return "refused" if error.reason and str(error) else traceback.format_exc()
    except BaseException:
        return traceback.format_exc()
    return "imported"


@dataclass
class Tally:
    """What a run found. slowest and peak: seconds, and bytes of memory above those of the start."""

    outcomes: Counter[str]
    failures: list[tuple[int, str]]
    slowest_seconds: float = 0.0
    peak_bytes: int = 0


def run(first: int, count: int, *, limited: bool = True, folder: Path | None = None) -> Tally:
    """Inputs `first` to `first + count - 1`, in this process.

    limited: under limits of time and memory. folder: of real networks, which then are the seedlings.
    """
    seedlings = corpus() if folder is None else published(folder)
    attempt(seedlings[0])  # imports of libraries are not the input's
    tally = Tally(Counter(), [])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if limited:
        _limit()
    for number in range(first, first + count):
        files = mutated(number, seedlings)
        began = time.perf_counter()
        if limited:
            signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
        outcome = attempt(files)
        if limited:
            signal.setitimer(signal.ITIMER_REAL, 0)
        tally.slowest_seconds = max(tally.slowest_seconds, time.perf_counter() - began)
        passed = outcome in ("imported", "refused")
        tally.outcomes[outcome if passed else "failed"] += 1
        if not passed:
            tally.failures.append((number, outcome))
    tally.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return tally


def _limit() -> None:
    """One GiB of address space beyond what is in use, and an alarm that raises."""
    with open("/proc/self/statm", encoding="ascii") as file:
        in_use = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + GIB, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def late(signum: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError(f"over {LIMIT_SECONDS} seconds")

    signal.signal(signal.SIGALRM, late)


def explode(name: str, size_bytes: int, seconds: int = LIMIT_SECONDS) -> str:
    """One bomb under the limits, in this process; the outcome as `attempt` has it."""
    attempt(corpus()[0])
    bomb = bombs(size_bytes)[name]
    _limit()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    outcome = attempt(bomb)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return outcome


def _explode(name: str) -> tuple[str, str]:
    return name, explode(name, LARGEST_INPUT)


def _blocks(first: int, count: int, size: int, folder: Path | None) -> Iterator[tuple[int, int, Path | None]]:
    for start in range(first, first + count, size):
        yield start, min(size, first + count - start), folder


def _block(block: tuple[int, int, Path | None]) -> Tally:
    first, count, folder = block
    return run(first, count, folder=folder)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--first", type=int, default=0, help="number of the first input (0)")
    parser.add_argument("--count", type=int, default=100_000, help="inputs (100000)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--no-bombs", dest="bombs", action="store_false", help="mutated inputs only")
    parser.add_argument("--published", action="store_true", help="start from the networks in NNKIT_SHARED")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args(arguments)
    folder = shared_folder() if options.published else None
    if options.published and folder is None:
        parser.error("set NNKIT_SHARED to the folder of published networks")
    began = time.perf_counter()
    total = Tally(Counter(), [])
    blocks = list(_blocks(options.first, options.count, 2000 if folder is None else 500, folder))
    burst: list[tuple[str, str]] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1) as pool:
        if options.bombs:
            outcomes = pool.imap(_explode, bombs(64), chunksize=1)
            burst = [(name, outcome) for name, outcome in outcomes if outcome not in ("imported", "refused")]
        for tally in pool.imap(_block, blocks, chunksize=1):
            total.outcomes += tally.outcomes
            total.failures += tally.failures
            total.slowest_seconds = max(total.slowest_seconds, tally.slowest_seconds)
            total.peak_bytes = max(total.peak_bytes, tally.peak_bytes)
    figures = {
        "bombs": len(bombs(64)) if options.bombs else 0,
        "inputs": options.count,
        **{name: total.outcomes[name] for name in ("imported", "refused", "failed")},
        "slowest_ms": round(total.slowest_seconds * 1000),
        "peak_mib": round(total.peak_bytes / 2**20),
        "seconds": round(time.perf_counter() - began),
    }
    print(
        json.dumps(figures) if options.json else "\n".join(f"{key:12} {value:>10,}" for key, value in figures.items())
    )
    for name, outcome in [*burst, *total.failures[:10]]:
        print(f"input {name}:\n{outcome}", file=sys.stderr)
    return 1 if total.failures or burst else 0


if __name__ == "__main__":
    raise SystemExit(main())
