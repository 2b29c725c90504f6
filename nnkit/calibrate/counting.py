"""Counting numbers in bins by machine code, where the host has a C compiler and there is enough to count.

`count.c` gives the same counts as `bin_counts` in numpy, in a third of its time and without Python's lock. It is
compiled once and kept beside the stage cache. Whatever stands in the way (no compiler, a folder that cannot be
written to, a library that cannot be loaded), numpy counts, and nothing else changes.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import subprocess
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.cache import default_folder
from nnkit.calibrate.observers import BINS, bin_counts, float32_scale
from nnkit.host_compiler import host_compiler

BinCounts: TypeAlias = Callable[[NDArray[Any], int, int], "tuple[NDArray[np.int64], int]"]
"""`bin_counts`, or what does the same."""

WORTH_COMPILING = 20_000_000
"""Numbers. To count them the compiler would have to be four times as fast as it is, but it is needed once only."""

_FLAGS = ("-O3", "-std=c99", "-shared", "-fPIC")
_TIMEOUT_S = 60
_TABLES = 4  # as in count.c
_MOST_NUMBERS = 2**32 - 1  # that a table can hold in one call


def counter_for(numbers: int) -> BinCounts:
    """The fastest way at hand to count so many."""
    return _compiled(default_folder() / "native", numbers >= WORTH_COMPILING) or bin_counts


@lru_cache(maxsize=4)
def _compiled(folder: Path, compile_it: bool) -> BinCounts | None:
    """`count.c` from the folder, compiled if asked for and not there; None where that cannot be."""
    compiler = host_compiler()
    if compiler is None:
        return None
    source = resources.files("nnkit.calibrate").joinpath("count.c").read_bytes()
    key = hashlib.sha256(b"\0".join([source, compiler.encode(), " ".join(_FLAGS).encode()])).hexdigest()
    library = folder / f"count-{key[:32]}.so"
    try:
        if not library.is_file():
            if not compile_it:
                return None
            _compile(compiler, source, library)
        function = ctypes.CDLL(str(library)).nnkit_count
    except (OSError, AttributeError, subprocess.SubprocessError):
        return None
    function.restype = ctypes.c_size_t
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    function.argtypes = [pointer, size, ctypes.c_float, ctypes.c_int32, pointer, size]
    return _counter(function)


def _compile(compiler: str, source: bytes, library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    made = library.with_name(f"{library.name}.{secrets.token_hex(8)}")
    command = [compiler, *_FLAGS, "-x", "c", "-", "-o", str(made)]
    try:
        subprocess.run(command, input=source, capture_output=True, timeout=_TIMEOUT_S, check=True)
        os.replace(made, library)
    finally:
        made.unlink(missing_ok=True)


def _counter(function: Callable[..., int]) -> BinCounts:
    def counted(numbers: NDArray[Any], exponent: int, below: int = 0) -> tuple[NDArray[np.int64], int]:
        scale = float32_scale(numbers, exponent)
        if scale is None or not numbers.flags.c_contiguous or numbers.size > _MOST_NUMBERS:
            return bin_counts(numbers, exponent, below)
        negative = (BINS // 2) << below
        size = negative + BINS // 2
        tables = np.zeros((_TABLES, size), np.uint32)
        zeros = function(numbers.ctypes.data, numbers.size, scale, negative, tables.ctypes.data, size)
        counts = tables.sum(axis=0, dtype=np.int64)
        counts[negative] -= zeros
        return counts, zeros

    return counted
