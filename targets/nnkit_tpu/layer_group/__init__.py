"""Layer groups: runs of layers that work in local memory: cut, sliced, scheduled, placed, and proven by running."""
