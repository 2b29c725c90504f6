"""Networks with a spatial transformer (STN): split at the warp, which the CPU does, and calibrated on both sides."""

from nnkit.stn.calibration import net_calibration_inputs, write_net_calibration
from nnkit.stn.run import run_split
from nnkit.stn.split import StnSplit, split_stn

__all__ = ["StnSplit", "net_calibration_inputs", "run_split", "split_stn", "write_net_calibration"]
