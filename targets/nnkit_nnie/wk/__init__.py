"""Compiled networks, `.wk`: what is in them, and whether it is what we computed."""
