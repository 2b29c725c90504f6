"""Counting numbers in bins by machine code, where the host has a C compiler and there is enough to count.

`count.c` gives the same counts as `bin_counts` in numpy, in a third of its time and without Python's lock. It is
compiled once and kept beside the stage cache. Whatever stands in the way (no compiler, a folder that cannot be
written to, a library that cannot be loaded), numpy counts, and nothing else changes.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import secrets
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.c.host_compiler import host_compiler
from nnkit.cache import default_folder
from nnkit.calibrate.observers import BINS, MIN_EXPONENT, bin_counts
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool
from nnkit.trust import make_private, why_not_private


class Counted(NamedTuple):
    """Numbers of an array: the least, the greatest, how many are zero, and [BINS] counts of the others in bins."""

    low: float
    high: float
    zeros: int
    counts: NDArray[np.int64]


Count: TypeAlias = Callable[[NDArray[Any], int, int], "Counted | None"]
"""(numbers, exponent of the range of negative ones, exponent of that of positive ones): see `bin_counts`. None where
one lies beyond, or is NaN. The array is not empty."""


def numpy_count(numbers: NDArray[Any], negative_exponent: int, exponent: int) -> Counted | None:
    """In numpy; see `Count`."""
    low, high = float(numbers.min()), float(numbers.max())
    if not (math.ldexp(-1.0, negative_exponent) <= low and high < math.ldexp(1.0, exponent)):  # NaN among them, too
        return None
    counts, zeros = bin_counts(numbers, negative_exponent, exponent)
    return Counted(low, high, zeros, counts)


WORTH_COMPILING = 20_000_000
"""Numbers. To count them the compiler would have to be four times as fast as it is, but it is needed once only."""

_FLAGS = ("-O3", "-std=c99", "-shared", "-fPIC", f"-DNNKIT_BINS={BINS}")
_TIMEOUT_S = 60
_EXPONENTS = frozenset({MIN_EXPONENT, *range(-115, 128)})  # whose scales and bounds a float32 holds


def fastest_count(numbers: int) -> Count:
    """The fastest way at hand to count so many."""
    return _compiled(default_folder() / "native", numbers >= WORTH_COMPILING) or numpy_count


@lru_cache(maxsize=4)
def _compiled(folder: Path, compile_it: bool) -> Count | None:
    """`count.c` from the folder, compiled if asked for and not there; None where that cannot be."""
    compiler = host_compiler()
    if compiler is None:
        return None
    source = resources.files("nnkit.calibrate").joinpath("count.c").read_bytes()
    key = hashlib.sha256(b"\0".join([source, compiler.encode(), " ".join(_FLAGS).encode()])).hexdigest()
    library = folder / f"count-{key[:32]}.so"
    try:
        if why_not_private(library) is not None:  # who can write there would run code as this user
            return None
        if not library.is_file():
            if not compile_it:
                return None
            _compile(compiler, source, library)
        function = ctypes.CDLL(str(library)).nnkit_count
    except (OSError, AttributeError, ToolError):
        return None
    function.restype = ctypes.c_int64
    pointer, size, real = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float
    function.argtypes = [pointer, size, real, real, real, real, pointer, pointer]
    return _counting_by(function)


def _compile(compiler: str, source: bytes, library: Path) -> None:
    refused = make_private(library.parent)
    if refused is not None:
        raise ToolError(f"no place for compiled code: {refused}", where=str(library.parent), remedy="numpy counts")
    made = library.with_name(f"{library.name}.{secrets.token_hex(8)}")
    command = [compiler, *_FLAGS, "-x", "c", "-", "-o", str(made.absolute())]
    try:
        run_tool(command, stdin=source, timeout_s=_TIMEOUT_S).checked(remedy="numpy counts")
        made.chmod(0o700)
        os.replace(made, library)
    finally:
        made.unlink(missing_ok=True)


def _counting_by(function: Callable[..., int]) -> Count:
    def count(numbers: NDArray[Any], negative_exponent: int, exponent: int) -> Counted | None:
        fits = numbers.dtype == np.float32 and numbers.flags.c_contiguous
        ranges = _ranges(negative_exponent, exponent)
        if not fits or ranges is None:
            return numpy_count(numbers, negative_exponent, exponent)
        counts, ends = np.empty(BINS, np.int64), np.empty(2, np.float32)
        zeros = function(numbers.ctypes.data, numbers.size, *ranges, counts.ctypes.data, ends.ctypes.data)
        return None if zeros < 0 else Counted(float(ends[0]), float(ends[1]), zeros, counts)

    return count


@lru_cache(maxsize=4096)
def _ranges(negative_exponent: int, exponent: int) -> tuple[float, float, float, float] | None:
    """Least number, limit, and 1 / width of a bin on either side; None where a float32 does not hold them."""
    if not {negative_exponent, exponent} <= _EXPONENTS:
        return None
    # On a side where nothing but zeros was seen, nothing else may lie; any width will do.
    lowest, negative_scale = (-0.0, 1.0) if negative_exponent == MIN_EXPONENT else _side(-1.0, negative_exponent)
    limit, scale = (2.0**-149, 1.0) if exponent == MIN_EXPONENT else _side(1.0, exponent)
    return lowest, limit, negative_scale, scale


def _side(sign: float, exponent: int) -> tuple[float, float]:
    return math.ldexp(sign, exponent), math.ldexp(BINS // 2, -exponent)
