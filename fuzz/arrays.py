"""Arrays and features: `.npy`, `.npz`, text, and what `compare`, `evaluate`, `simulate --input` and edits read."""

from __future__ import annotations

import functools
import io
import zipfile
from pathlib import Path
from random import Random

import numpy as np

from fuzz.damage import damaged_bytes, damaged_text

SHAPE = (1, 2, 4, 4)
Seeds = dict[str, bytes]


def seeds(folder: Path) -> Seeds:
    """Whole files by name."""
    values = np.random.default_rng(0).standard_normal(SHAPE)
    files: Seeds = {}
    for name, array in (("f8", values), ("f4", values.astype("f4")), ("i1", values.astype("i1")), ("f2", values[0])):
        files[f"{name}.npy"] = _npy(np.asfortranarray(array) if name == "f2" else array)
    rows = values.reshape(4, 8)
    names = np.asarray(["a/1", "a/2", "b/1", "b/2"])
    for name, save in (("stored", np.savez), ("packed", np.savez_compressed)):
        stream = io.BytesIO()
        save(stream, features=rows, names=names)
        files[f"{name}.npz"] = stream.getvalue()
    stream = io.BytesIO()
    np.savez(stream, mean=rows[0], matrix=rows[:, :4].T @ rows)
    files["pca.npz"] = stream.getvalue()
    lines = [f"{name} {' '.join(map(repr, row))}\n" for name, row in zip(names, rows.tolist(), strict=True)]
    files["lines.txt"] = "".join(lines).encode()
    files["lines.csv"] = files["lines.txt"].replace(b" ", b",")
    files["vector.bin"] = rows[0].astype("<f4").tobytes()
    return files


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged file through one of its readers."""
    from nnkit.commands.compare import compare_command
    from nnkit.commands.evaluate import evaluate_command
    from nnkit.preprocess import load_array
    from nnkit.rewrite.pca import read_pca

    name = chance.choice(sorted(given))
    path, whole = folder / name, folder / f"whole{Path(name).suffix}"
    path.write_bytes(_damaged(name, given[name], chance))
    whole.write_bytes(given[name])
    reader = chance.choice(("compare", "evaluate", "input", "pca"))
    if reader == "compare":
        first, second = chance.sample((path, whole), 2)
        compare_command(first, second, json=True)
    elif reader == "evaluate":
        other = chance.choice((None, whole))
        source = folder if name.endswith(".bin") else path
        evaluate_command(
            source,
            pairs=None,
            by_folder=chance.random() < 0.3,
            metric="cosine",
            false_positive_rate=0.1,
            against=None if other is None or source is folder else other,
            ranges=folder / "ranges.csv",
            json=chance.random() < 0.5,
        )
    elif reader == "input":
        load_array(path, SHAPE)
    else:
        read_pca(path)


def _damaged(name: str, data: bytes, chance: Random) -> bytes:
    if name.endswith((".txt", ".csv")):
        return damaged_text(data.decode(), chance)
    if name.endswith(".npy") and chance.random() < 0.6:
        return _other_header(data, chance)
    if name.endswith(".npz") and chance.random() < 0.6:
        return _other_member(data, chance)
    return damaged_bytes(data, chance)


def _other_header(data: bytes, chance: Random) -> bytes:
    """The header's text damaged, its length made right again."""
    end = 10 + int.from_bytes(data[8:10], "little")
    header = damaged_text(data[10:end].decode("latin1"), chance)[:60000]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[end:]


def _other_member(data: bytes, chance: Random) -> bytes:
    """An array of the archive damaged, the archive whole around it; sometimes it is renamed or left out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    victim = chance.choice(list(members))
    kind = chance.randrange(8)
    if kind == 0:
        name = chance.choice(("x.npy", "../x", "features"))
        return _archive({name if old == victim else old: content for old, content in members.items()})
    if kind == 1:
        return _with_zeros(data, victim, chance.choice((0, 1, 1 << 20, 1 << 27)))
    if kind == 2:
        members[victim] = _npy(np.asarray(chance.choice((0.0, [], [[]], ["a"], [1j], [True]))))
    elif kind == 3:
        del members[victim]
    else:
        content = members[victim]
        members[victim] = _other_header(content, chance) if kind > 5 else damaged_bytes(content, chance)
    return _archive(members)


@functools.cache
def _with_zeros(data: bytes, victim: str, size: int) -> bytes:
    """A member of zero bytes, a thousandth of their number when packed; packing 128 MiB takes half a second."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _archive({name: archive.read(name) for name in archive.namelist()} | {victim: bytes(size)})


def _archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
