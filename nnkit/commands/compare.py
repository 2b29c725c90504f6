"""`nnkit compare`: two builds layer by layer, or two tensor files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from nnkit.builds import BuiltFolder, open_build
from nnkit.commands.common import print_json, print_line
from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.verify.metrics import Distance, DistanceSum, distance


def compare_command(first: Path, second: Path | None, *, json: bool, mapper_quant: Path | None = None) -> None:
    """Print the distance of every tensor both sides have; differing values end with exit code 1.

    mapper_quant: dumps of a vendor's compiler to compare the build with, instead of `second`. Their differences are
    what the report is asked for, and no failure.
    """
    if mapper_quant is not None:
        _print_rows(_dumps(first, second, mapper_quant), json=json)
        return
    if second is None:
        raise UsageError("nothing to compare with", remedy="name a second build or file, or give --mapper-quant DIR")
    if first.is_dir() != second.is_dir():
        raise UsageError("a build can only be compared with a build", remedy="name two build folders or two files")
    rows = _builds(first, second) if first.is_dir() else _files(first, second)
    _print_rows(rows, json=json)
    different = [name for name, d, _ in rows if d.max_abs != 0.0]
    if different:
        raise GateFailedError(
            f"{len(different)} of {len(rows)} tensors differ, the first is {different[0]!r}", where=str(second)
        )


Row = tuple[str, Distance, str]


def _print_rows(rows: list[Row], *, json: bool) -> None:
    if json:
        print_json([{"name": name, **d.as_json(), "note": note} for name, d, note in rows])
    else:
        width = max((len(name) for name, _, _ in rows), default=4)
        print_line(f"{'tensor':<{width}}  {'cosine':>10} {'SQNR dB':>9} {'max abs':>12}")
        for name, d, note in rows:
            sqnr = "equal" if d.sqnr_db == float("inf") else f"{d.sqnr_db:.2f}"
            print_line(f"{name:<{width}}  {d.cosine:>10.7f} {sqnr:>9} {d.max_abs:>12.6g}  {note}".rstrip())


def _dumps(build: Path, second: Path | None, dumps: Path) -> list[Row]:
    """A build against the dumps of its target's compiler."""
    from nnkit.target import load_target, plugin_name

    if second is not None:
        raise UsageError("--mapper-quant takes the place of B", remedy="name one build and --mapper-quant DIR")
    opened = open_build(build)
    name = plugin_name(str(opened.report["target"]))
    compare = getattr(load_target(name), "compare_mapper_quant", None)
    if compare is None:
        raise UsageError(f"the target {name!r} has no mapper", remedy="--mapper-quant is for builds of nnie")
    compared, problems = compare(build, opened.program, dumps)
    for problem in problems:
        sys.stderr.write(f"note: {problem}\n")
    if not compared:
        raise UserFileError("no dump belongs to this build", where=str(dumps), remedy="compile this build's artifact")
    return [(tensor, found, "") for tensor, found in compared]


def _builds(first: Path, second: Path) -> list[Row]:
    """Both programs on the inputs that A was verified on; values in real units."""
    import numpy as np

    from nnkit.simulate import simulate
    from nnkit.verify.samples import Sample, quantized_inputs

    a, b = open_build(first), open_build(second)
    samples = [Sample(str(i), given) for i, given in enumerate(_kept_inputs(a))]
    if not samples:
        raise UserFileError("no verification inputs in this build", where=str(first), remedy="build it again")
    if {n: a.program.tensors[n].shape for n in a.program.inputs} != {
        n: b.program.tensors[n].shape for n in b.program.inputs
    }:
        raise UsageError("the two builds have different inputs", where=str(second))
    names = [op.output for op in a.program.ops if op.output in b.program.tensors]
    names = [n for n in names if a.program.tensors[n].shape == b.program.tensors[n].shape]
    if not names:
        raise UsageError("the two builds have no layer in common", where=str(second))
    sums = {name: DistanceSum() for name in names}
    for sample in samples:
        left = simulate(a.program, quantized_inputs(a.program, sample))
        right = simulate(b.program, quantized_inputs(b.program, sample))
        for name in names:
            sums[name].add(
                np.asarray(b.program.tensors[name].format.dequantize(right[name])),
                np.asarray(a.program.tensors[name].format.dequantize(left[name])),
            )
    return [(name, sums[name].result(), _formats(a, b, name)) for name in names]


def _formats(a: BuiltFolder, b: BuiltFolder, name: str) -> str:
    one, other = a.program.tensors[name].format, b.program.tensors[name].format
    return str(one) if one == other else f"{one} -> {other}"


def _kept_inputs(build: BuiltFolder) -> list[dict[str, Any]]:
    import numpy as np

    from nnkit.verify.store import float_input_path

    folder = build.folder / "verify"
    found = []
    index = 0
    while all(float_input_path(folder, index, name).is_file() for name in build.program.inputs):
        found.append({n: np.load(float_input_path(folder, index, n)) for n in build.program.inputs})
        index += 1
    return found


def _files(first: Path, second: Path) -> list[Row]:
    left, right = _tensors(first), _tensors(second)
    if len(left) == len(right) == 1:
        right = dict(zip(left, right.values(), strict=True))
    names = [name for name in left if name in right]
    if not names:
        raise UsageError("the two files have no tensor name in common", where=str(second))
    rows: list[Row] = []
    for name in names:
        if left[name].size != right[name].size:
            raise UsageError(
                f"{name}: shapes {left[name].shape} and {right[name].shape} cannot be compared", where=str(second)
            )
        rows.append((name, distance(right[name], left[name]), ""))
    return rows


def _tensors(path: Path) -> dict[str, Any]:
    import numpy as np

    remedy = "name a .npy or .npz file of numbers"
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserFileError(
            f"cannot read a tensor from this file: {error}", where=str(path), remedy=remedy
        ) from error
    tensors = {path.stem: loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    if not all(np.issubdtype(value.dtype, np.number) for value in tensors.values()):
        raise UserFileError("this file holds something else than numbers", where=str(path), remedy=remedy)
    return tensors
