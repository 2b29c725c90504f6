"""Descriptors of any origin (board, simulation, float): read from files, and what compression needs of them.

A set of features is a name and a vector [D] for each image. Formats: `.npz` of `features` [N, D], `names` [N];
`.npy` [N, D] (names are the row numbers); text or CSV with a line `name value value ...` for each; a folder of
`.npy`, `.txt` or `.bin` (little-endian float32) files with one vector each, named by their paths without ending.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UserFileError

_ENDINGS = (".npy", ".txt", ".bin")


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
        files = sorted(p for p in path.rglob("*") if p.suffix in _ENDINGS)
        names = [p.relative_to(path).with_suffix("").as_posix() for p in files]
        return _stacked(names, [_vector(p) for p in files], path)
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                values, listed = np.asarray(archive["features"], np.float64), archive["names"]
            return _stacked([str(name) for name in listed], list(values), path)
        if path.suffix == ".npy":
            values = np.asarray(np.load(path, allow_pickle=False), np.float64)
            return _stacked([str(i) for i in range(len(values))], list(values), path)
    except (OSError, ValueError, KeyError, EOFError, TypeError) as error:
        raise _unreadable(path, str(error)) from error
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
    try:
        path.write_text("dimension,vmin,vdiff\n" + "\n".join(rows) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserFileError(
            f"cannot be written: {error.strerror}", where=str(path), remedy="choose another file"
        ) from error


def feature_distance(features: Features, other: Features) -> FeatureDistance:
    """Of the images that are in both, by name. Raises UserFileError where there are none, or the lengths differ."""
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


def _vector(path: Path) -> NDArray[np.float64]:
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), np.float64).ravel()
        if path.suffix == ".bin":
            return np.fromfile(path, "<f4").astype(np.float64)
        return np.asarray(path.read_text(encoding="utf-8").replace(",", " ").split(), np.float64)
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, str(error)) from error


def _lines(path: Path) -> Features:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(error)) from error
    names, vectors = [], []
    for line, row in enumerate(csv.reader(text.splitlines()), start=1):
        fields = row if len(row) > 1 else " ".join(row).split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            vectors.append(np.asarray([float(field) for field in fields[1:]], np.float64))
        except ValueError as error:
            raise UserFileError(
                f"not a vector: {error}", where=f"{path}:{line}", remedy="write a name and its numbers in each line"
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
    return UserFileError(
        f"no features can be read from it: {reason}",
        where=str(path),
        remedy="give .npz (features, names), .npy, lines of a name and numbers, or a folder of one vector a file",
    )
