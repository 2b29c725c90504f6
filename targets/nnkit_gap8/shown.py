"""What the page of a build for the cluster shows beside what all pages show: cycles, and how layers lie in L1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnkit.runner import LayerTime, Speed
from nnkit.target import Shown, Table

_SIMULATOR = "gvsoc"
_UNKNOWN = "-"
_COLUMNS = (
    *("layer", "tile (channels x rows x columns)", "input channels of a slice", "tiles", "L1 bytes", "DMA bytes"),
    *("compute cycles", "DMA cycles", "L3 cycles", "bound by", "modelled cycles", "least of any cut"),
)


def shown(details: Mapping[str, Any], clock_hz: int) -> Shown:
    """From the report's details, `measured` among them: simulated cycles where there are any, else the model's."""
    cluster = details.get("cluster")
    if cluster is None:
        return Shown()
    measured = details.get("measured", {}).get(_SIMULATOR, {})
    cycles = _layer_cycles(cluster, measured)
    return Shown(
        speed=_speed(cluster, measured.get("cycles"), clock_hz),
        tables=tuple(table for table in (_tiled(cluster, measured), _untiled(cluster, measured)) if table.rows),
        layer_times={name: LayerTime(1e3 * count / clock_hz, count) for name, count in cycles.items()},
    )


def _layer_cycles(cluster: Mapping[str, Any], measured: Mapping[str, int]) -> dict[str, int]:
    modelled: dict[str, int] = {row["layer"]: row["modelled_cycles"] for row in cluster["layers"]} | cluster[
        "on_l2_cycles"
    ]
    if not measured:
        return modelled
    return {name: measured[_of_layer(name)] for name in modelled if _of_layer(name) in measured}


def _of_layer(name: str) -> str:
    return f"cycles:{name}"


def _speed(cluster: Mapping[str, Any], simulated: int | None, clock_hz: int) -> tuple[Speed, ...]:
    """Time first, then the cycles that it comes from; the model's cycles beside simulated ones."""
    cores, modelled, macs = cluster["cores"], cluster["modelled_cycles"], cluster["macs"]
    clock = f"{clock_hz / 1e6:g} MHz, on {_cores(cores)}"
    if simulated is None:
        rate = _rate(macs, modelled)
        how = f"the model that chose the tiles, on {_cores(cores)}, {rate} multiply-accumulates a cycle"
        return (
            Speed("time", 1e3 * modelled / clock_hz, "ms", "estimate", f"the modelled cycles at {clock}"),
            Speed("cycles", modelled, "cycles", "estimate", how),
        )
    how = f"counted on {_SIMULATOR}, on {_cores(cores)}, {_rate(macs, simulated)} multiply-accumulates a cycle"
    off = f"the model that chose the tiles, {100 * (modelled / simulated - 1):+.1f} % against {_SIMULATOR}"
    return (
        Speed("time", 1e3 * simulated / clock_hz, "ms", "estimate", f"the cycles of {_SIMULATOR} at {clock}"),
        Speed("cycles", simulated, "cycles", "measurement", how),
        Speed("modelled cycles", modelled, "cycles", "estimate", off),
    )


def _cores(count: int) -> str:
    return "one core" if count == 1 else f"{count} cores"


def _rate(macs: int, cycles: int) -> str:
    return f"{macs / cycles:.2f}" if cycles else _UNKNOWN


def _tiled(cluster: Mapping[str, Any], measured: Mapping[str, int]) -> Table:
    """Simulated cycles have a column where there are any; the rate is that of these, else of the modelled ones."""
    rows: list[tuple[str | int | float, ...]] = []
    for row in cluster["layers"]:
        counted = measured.get(_of_layer(row["layer"]))
        known = row["modelled_cycles"] if counted is None else counted
        rows.append(
            (
                row["layer"],
                " x ".join(map(str, row["tile"])),
                "all" if row["input_channels"] is None else row["input_channels"],
                row["tiles"],
                row["l1_bytes"],
                row["dma_bytes"],
                row["compute_cycles"],
                row["dma_cycles"],
                row["l3_cycles"],
                row["bound"],
                row["modelled_cycles"],
                row["least_cycles"],
                *(() if not measured else (_UNKNOWN if counted is None else counted,)),
                _rate(row["macs"], known) if row["macs"] else _UNKNOWN,
            )
        )
    columns = (*_COLUMNS, *((f"cycles on {_SIMULATOR}",) if measured else ()), "MAC per cycle")
    return Table("Layers in tiles in L1", columns, tuple(rows))


def _untiled(cluster: Mapping[str, Any], measured: Mapping[str, int]) -> Table:
    rows = tuple(
        (
            name,
            reason,
            cluster["on_l2_cycles"].get(name, _UNKNOWN),
            *((measured.get(_of_layer(name), _UNKNOWN),) if measured else ()),
        )
        for name, reason in cluster["on_l2"].items()
    )
    columns = ("layer", "why", "modelled cycles", *((f"cycles on {_SIMULATOR}",) if measured else ()))
    return Table("Layers without tiles, which run on L2", columns, rows)
