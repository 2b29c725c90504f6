"""The vendor's toolchain for tests, installed through our own installer; quick from the second time on."""

from __future__ import annotations

import os

import pytest

from nnkit.errors import ToolError
from nnkit_tpu.toolchain import Toolchain, install, require_toolchain


@pytest.fixture(scope="session")
def tpu_toolchain() -> Toolchain:
    """The managed toolchain. Skips only where the package index is out of reach, and never in CI."""
    try:
        install()
    except ToolError as error:
        if os.environ.get("CI", "").lower() == "true":
            raise
        pytest.skip(str(error))
    return require_toolchain()
