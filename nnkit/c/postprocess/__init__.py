"""C of the CPU-side stages, one pair of files a stage; `nnkit.postprocess` defines what they compute, in Python."""
