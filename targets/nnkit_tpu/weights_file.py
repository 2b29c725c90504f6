"""Weights for the vendor's compiler: an npz archive whose bytes depend on names and values alone.

`numpy.savez` writes the version that a reader needs into each member, and that differs between releases of Python.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DATE = (1980, 1, 1, 0, 0, 0)
_PERMISSIONS = 0o600 << 16


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Stored without compression, in the order given; `numpy.load` reads it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, values in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asanyarray(values), allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy", _DATE)
            member.create_system, member.external_attr = 3, _PERMISSIONS
            archive.writestr(member, content.getbuffer())
