"""The commands behind `nnkit.cli`, one file each."""
