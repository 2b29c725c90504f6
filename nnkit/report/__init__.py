"""Reports, progress and the output folder."""
