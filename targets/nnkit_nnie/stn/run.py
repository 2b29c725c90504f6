"""The split network run as on the device (STN, warp, NET), and the calibration set of NET that it gives.

Which STN makes the set? On the device NET sees images that the quantised STN has aligned. The float STN is the usual
practice; the simulated one (any callable) is what NET will really be fed by. Where the two differ is in how far off
the matrix is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import cannot_be_written
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite.stn_split import StnSplit

Inputs: TypeAlias = Mapping[str, NDArray[Any]]
StnRun: TypeAlias = Callable[[Inputs], NDArray[Any]]
"""The STN's inputs of one sample by name -> its matrix in real units, of any shape with 8 or 9 values."""


def run_split(split: StnSplit, inputs: Inputs, stn: StnRun | None = None) -> dict[str, NDArray[np.float32]]:
    """The outputs of STN, warp and NET one after another, of one sample of the unsplit network.

    stn: computes the matrix; None takes the STN in float32.
    """
    return FloatSession(split.net).run(_net_inputs(split, inputs, stn or _float_stn(split)))


def net_calibration_inputs(
    split: StnSplit, samples: Iterable[Inputs], stn: StnRun | None = None
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """NET's inputs for each sample of the unsplit network, one at a time.

    samples: network inputs after preprocessing, by name.
    stn: computes the matrix from the STN's inputs; None takes the STN in float32.
    """
    chosen = stn or _float_stn(split)
    return (_net_inputs(split, sample, chosen) for sample in samples)


def write_net_calibration(
    split: StnSplit, samples: Iterable[Inputs], folder: Path, stn: StnRun | None = None
) -> dict[str, tuple[Path, ...]]:
    """The calibration set as `.npy` files, which a recipe's `calibration: {images: ...}` takes as they are.

    Returns the files by NET's input, `<folder>/<input>/0000.npy` and so on; characters of the input's name that no
    file name can have become `_`.

    Raises:
        UserFileError: the folder cannot be written.
    """
    written: dict[str, list[Path]] = {spec.name: [] for spec in split.net.inputs}
    places = {name: folder / "".join(c if c.isalnum() or c in "._-" else "_" for c in name) for name in written}
    try:
        for place in places.values():
            place.mkdir(parents=True, exist_ok=True)
        for index, inputs in enumerate(net_calibration_inputs(split, samples, stn)):
            for name, array in inputs.items():
                path = places[name] / f"{index:04d}.npy"
                np.save(path, array)
                written[name].append(path)
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    return {name: tuple(paths) for name, paths in written.items()}


def _float_stn(split: StnSplit) -> StnRun:
    """The STN in float32."""
    session = FloatSession(split.stn)
    return lambda inputs: session.run(inputs)[split.matrix]


def _net_inputs(split: StnSplit, inputs: Inputs, stn: StnRun) -> dict[str, NDArray[np.float32]]:
    """NET's inputs of one sample: the warped image, and the whole network's other inputs that NET reads."""
    matrix = np.asarray(stn({spec.name: inputs[spec.name] for spec in split.stn.inputs}), np.float32)
    warped = split.warp.run(np.asarray(inputs[split.image], np.float32), matrix.reshape(-1))[0]
    return {
        spec.name: warped if spec.name == split.warped else np.asarray(inputs[spec.name], np.float32)
        for spec in split.net.inputs
    }
