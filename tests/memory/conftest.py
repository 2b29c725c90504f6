"""The compiled search needs the extra [solver]; without it the core is tested alone."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("numba") else ["test_memory_compiled.py"]
