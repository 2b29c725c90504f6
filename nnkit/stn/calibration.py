"""The calibration set of NET: the images as they are after STN and warp.

Which STN? On the device NET sees images that the quantised STN has aligned. The float STN is the usual practice; the
simulated one (any callable) is what NET will really be fed by. Where the two differ is in how far off the matrix is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import cannot_be_written
from nnkit.stn.run import Inputs, StnRun, float_stn, net_inputs
from nnkit.stn.split import StnSplit


def net_calibration_inputs(
    split: StnSplit, samples: Iterable[Inputs], stn: StnRun | None = None
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """NET's inputs for each sample of the unsplit network, one at a time.

    samples: network inputs after preprocessing, by name.
    stn: computes the matrix from the STN's inputs; None takes the STN in float32.
    """
    chosen = stn or float_stn(split)
    return (net_inputs(split, sample, chosen) for sample in samples)


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
