"""Layer groups: runs of layers that work in local memory: cut, sliced, measured by the compiler, audited."""
