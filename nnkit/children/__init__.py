"""Every process that nnkit starts begins here: nothing that lies in the current folder runs in it.

Python searches the folder that it is started in (`-m`, `-c`) for modules before its own, and an empty or relative
entry of PATH, LD_LIBRARY_PATH or PYTHONPATH is that folder too. It may hold a stranger's files: what came with a
model, or what users have sent to a server. Programs are therefore named by absolute paths, such entries are left out,
a Python is isolated, and a child works in a folder that is named for it. A test lists all starts of processes in the
product, and fails on one that does not go through this package.
"""
