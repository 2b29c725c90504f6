"""Networks that are quantised already: their integers, on chips whose compiler has a mode with zero points."""

from nnkit_tpu.quantized.accepted import check_accepted, check_corrections, refuse_search
from nnkit_tpu.quantized.lowering import lower
from nnkit_tpu.quantized.predict import other_modes, table_ranges, to_program

__all__ = [
    "check_accepted",
    "check_corrections",
    "lower",
    "other_modes",
    "refuse_search",
    "table_ranges",
    "to_program",
]
