"""Descriptors of any origin (board, simulation, float): read from files, and what compression needs of them.

A set of features is a name and a vector [D] for each image. Formats: `.npz` of `features` [N, D], `names` [N];
`.npy` [N, D] (names are the row numbers); text or CSV with a line `name value value ...` for each; a folder of
`.npy`, `.txt` or `.bin` (little-endian float32) files with one vector each, named by their paths without ending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UserFileError
from nnkit.output_file import write_output
from nnkit.reading import matching, read_array, read_arrays, read_bytes, read_csv, read_text
from nnkit.reading.arrays import NUMBERS
from nnkit.recipe.problems import shown

_ENDINGS = (".npy", ".txt", ".bin")
_NAMES = "US"  # kinds of types: texts
_WHAT = "the file of features"
_REMEDY = "give .npz (features, names), .npy, lines of a name and numbers, or a folder of one vector a file"


@dataclass(frozen=True, eq=False)
class Features:
    """names: what pair files call them. values: [N, D] float64."""

    names: tuple[str, ...]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureRanges:
    """What a linear 8-bit compression of descriptors needs: vmin [D] and vdiff = maximum - minimum [D]."""

    vmin: NDArray[np.float64]
    vdiff: NDArray[np.float64]


@dataclass(frozen=True)
class FeatureDistance:
    """How far two runs' features of the same images are apart.

    cosine_mean, cosine_min: over the images. largest: of any value. images: how many were in both.
    """

    images: int
    cosine_mean: float
    cosine_min: float
    largest: float


def read_features(path: Path) -> Features:
    """Raises UserFileError where the file is missing, of no known form, or holds vectors of different lengths."""
    if path.is_dir():
        files = sorted(p for p in (path / name for name in matching("**", path)) if p.suffix in _ENDINGS)
        names = [p.relative_to(path).with_suffix("").as_posix() for p in files]
        return _stacked(names, [_vector(p) for p in files], path)
    if path.suffix == ".npz":
        arrays = read_arrays(path, what=_WHAT, remedy=_REMEDY, kinds=NUMBERS + _NAMES)
        lacking = [name for name in ("features", "names") if name not in arrays]
        if lacking:
            raise _unreadable(path, f"it has no array {lacking[0]!r}")
        values, listed = arrays["features"], arrays["names"]
        if values.dtype.kind not in NUMBERS or listed.ndim != 1:
            raise _unreadable(path, "its features are no numbers, or its names no list")
        return _stacked([str(name) for name in listed], _rows(values, path), path)
    if path.suffix == ".npy":
        rows = _rows(read_array(path, what=_WHAT, remedy=_REMEDY), path)
        return _stacked([str(i) for i in range(len(rows))], rows, path)
    return _lines(path)


def feature_ranges(features: Features) -> FeatureRanges:
    """The range of every dimension over all images."""
    low, high = features.values.min(axis=0), features.values.max(axis=0)
    return FeatureRanges(low, high - low)


def write_ranges(ranges: FeatureRanges, path: Path) -> None:
    """CSV with a line `dimension,vmin,vdiff` for each; numbers in their shortest exact form."""
    rows = [
        f"{i},{low!r},{span!r}"
        for i, (low, span) in enumerate(zip(ranges.vmin.tolist(), ranges.vdiff.tolist(), strict=True))
    ]
    write_output(path, "dimension,vmin,vdiff\n" + "\n".join(rows) + "\n")


def feature_distance(features: Features, other: Features) -> FeatureDistance:
    """How far two runs are apart on the images that both have, by name.

    Raises UserFileError where there are none, or the lengths differ.
    """
    index = {name: i for i, name in enumerate(other.names)}
    common = [(i, index[name]) for i, name in enumerate(features.names) if name in index]
    if not common:
        raise UserFileError("the two sets of features have no name in common", remedy="name both by the same images")
    if features.values.shape[1] != other.values.shape[1]:
        lengths = f"{features.values.shape[1]} and {other.values.shape[1]}"
        raise UserFileError(f"the features have {lengths} values", remedy="compare features of one network")
    a, b = (side.values[[pair[k] for pair in common]] for k, side in enumerate((features, other)))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = np.divide(np.sum(a * b, axis=1), norms, out=np.zeros(len(norms)), where=norms > 0)
    return FeatureDistance(len(common), float(cosines.mean()), float(cosines.min()), float(np.abs(a - b).max()))


def _rows(values: NDArray[Any], path: Path) -> list[NDArray[np.float64]]:
    """A vector for each entry of the first axis."""
    if values.ndim == 0:
        raise _unreadable(path, "it holds a single value")
    return list(_real(values))


def _vector(path: Path) -> NDArray[np.float64]:
    if path.suffix == ".npy":
        return _real(read_array(path, what=_WHAT, remedy=_REMEDY)).ravel()
    if path.suffix == ".bin":
        data = read_bytes(path, what=_WHAT)
        if len(data) % 4:
            raise _unreadable(path, f"its {len(data):,} bytes are no float32 values")
        return np.frombuffer(data, "<f4").astype(np.float64)
    words = read_text(path, what=_WHAT, remedy=_REMEDY).replace(",", " ").split()
    try:
        return np.asarray([float(word) for word in words], np.float64)
    except ValueError as error:
        raise _unreadable(path, shown(str(error))) from error


def _real(values: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes infinite, and is refused as such
        return values.astype(np.float64)


def _lines(path: Path) -> Features:
    names, vectors = [], []
    for line, row in read_csv(path, what=_WHAT, remedy=_REMEDY):
        fields = row if len(row) > 1 else " ".join(row).split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            vectors.append(np.asarray([float(field) for field in fields[1:]], np.float64))
        except ValueError as error:
            raise UserFileError(
                f"not a vector: {shown(str(error))}",
                where=f"{path}:{line}",
                remedy="write a name and its numbers in each line",
            ) from error
        names.append(fields[0])
    return _stacked(names, vectors, path)


def _stacked(names: Sequence[str], vectors: Sequence[NDArray[np.float64]], path: Path) -> Features:
    lengths = {np.size(vector) for vector in vectors}
    if not vectors or lengths == {0}:
        raise _unreadable(path, "it holds no vectors")
    if len(lengths) > 1:
        raise _unreadable(path, f"its vectors have {min(lengths)} to {max(lengths)} values")
    if len(names) != len(vectors):
        raise _unreadable(path, f"{len(names)} names for {len(vectors)} vectors")
    values = np.stack([np.ravel(vector) for vector in vectors])
    if not np.isfinite(values).all():
        bad = names[int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])]
        raise _unreadable(path, f"the vector of {bad!r} holds a value that is not a number")
    return Features(tuple(names), values)


def _unreadable(path: Path, reason: str) -> UserFileError:
    return UserFileError(f"{_WHAT} cannot be read: {reason}", where=str(path), remedy=_REMEDY)
