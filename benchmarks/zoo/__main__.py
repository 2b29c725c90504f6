"""Networks as people export them, by both exporters of torch, on every target.

    python -m benchmarks.zoo [--networks A,B] [--exporters dynamo] [--targets gap8,tpu] [--json]

Each network is exported in the run, with random weights whose normalisations have seen random inputs, and goes
through import, restructuring, calibration, quantisation, planning, emission and verification of each target.
`status`: `ok`; `refused`, with the reasons that the user is told; `failed`, where nnkit broke or the artifact
disagrees with its Program. `mismatches`: values of the artifact that differ from the Program under the target's
contract (of ONNX Runtime for `onnx_qdq`, of the C as compiled for this host for `gap8`, `ansi_c` and NNIE's CPU
segments); empty where nothing was run. `sqnr_db`: the Program's outputs against the float network's. Networks for the
TPU are compiled and run on the vendor's chip model with `--compile`. `--keep FOLDER` keeps the exported files and
takes those of an earlier run. `--rows FILE` keeps every row as soon as it is known; a later run leaves out those that
are there, or with `--again` runs them anew. The rows of docs/support.md are in benchmarks/zoo/support.jsonl. Networks
come smallest first. Needs torch, torchvision and onnxscript (extra `zoo`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.table import show
from benchmarks.zoo import kept_rows
from benchmarks.zoo.catalogue import NETWORKS
from benchmarks.zoo.export import EXPORTERS, Exporter, export, shapes_of
from benchmarks.zoo.exported import Exported
from benchmarks.zoo.rows import TARGETS, row

_SHOWN = 100  # characters of a reason in the table for people


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each network, exporter and target; 1 where a row failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo")
    parser.add_argument("--networks", help=f"names, separated by commas; default: all {len(NETWORKS)}")
    parser.add_argument("--exporters", default=",".join(EXPORTERS))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--compile", action="store_true", help="compile for the TPU and run on the chip model")
    parser.add_argument("--keep", type=Path, help="folder of exported networks, used again by a later run")
    parser.add_argument(
        "--rows", type=Path, help="file of rows, to which a run adds; those that are there are not run"
    )
    parser.add_argument("--again", action="store_true", help="run also what has a row, which is replaced")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    names = _chosen(options.networks, tuple(NETWORKS), "network")
    exporters = _chosen(options.exporters, EXPORTERS, "exporter")
    targets = _chosen(options.targets, tuple(TARGETS), "target")
    kept = kept_rows.read(options.rows) if options.rows is not None else []
    rows = [] if options.again else kept_rows.chosen(kept, names, exporters, targets)
    done = set(map(kept_rows.key, rows))
    with tempfile.TemporaryDirectory(prefix="nnkit-zoo-") as temporary:
        folder = options.keep or Path(temporary)
        exported = {(n, e): _exported(n, e, folder / n / e) for n in names for e in exporters}
        for (name, exporter), network in sorted(exported.items(), key=lambda item: _bytes(item[1])):
            for target in targets:
                if (name, exporter, target) in done:
                    continue
                out = Path(temporary) / "out"
                made = row(name, exporter, target, network, out, compile_tpu=options.compile)
                rows.append(made)
                if options.rows is not None:
                    kept_rows.add(options.rows, made)
                sys.stderr.write("{network} {exporter} {target}: {status} ({seconds} s)\n".format(**made))
    shown = rows if options.json else [{**r, "reason": str(r["reason"]).split("\n")[0][:_SHOWN]} for r in rows]
    show(shown, as_json=options.json)
    counts = Counter((r["target"], r["status"]) for r in rows)
    sys.stderr.write("".join(f"{target}: {count} {status}\n" for (target, status), count in sorted(counts.items())))
    return 1 if any(r["status"] == "failed" for r in rows) else 0


def _bytes(network: Exported | str) -> int:
    """Bytes of the file and its external data; 0 where there is none."""
    if isinstance(network, str):
        return 0
    return sum(path.stat().st_size for path in network.path.parent.glob(f"{network.path.name}*"))


def _chosen(named: str | None, known: Sequence[str], what: str) -> Sequence[str]:
    wanted = named.split(",") if named else list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"no {what} {', '.join(unknown)}; there are: {', '.join(known)}")
    return wanted


def _exported(name: str, exporter: Exporter, folder: Path) -> Exported | str:
    """The exported files, from an earlier run where they are there; or the exporter's error."""
    if (folder / f"{name}.onnx").is_file():
        return Exported(folder / f"{name}.onnx", tuple(shapes_of(name)))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return export(name, exporter, folder)
    except Exception as error:  # torch's exporters raise all sorts; the row says what
        return f"{type(error).__name__}: {error}".split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
