"""Measurements of nnkit beside its peers; `README.md` says what each measures. Run from the repository's root."""

import os

# One thread for every implementation, as the command line has it; to be set before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
