"""The nnie target: HiSilicon NNIE."""
