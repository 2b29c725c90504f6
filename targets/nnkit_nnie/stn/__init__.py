"""Networks split at a spatial transformer's warp: run as on the device, and calibrated behind it."""
