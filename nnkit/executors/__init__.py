"""Where work that falls into independent parts runs: this process, processes of this host, a Dask cluster."""

from nnkit.executors.base import THIS_HOST, Executor, ExecutorChoice
from nnkit.executors.choose import check_choice, open_executor, usable_cores

__all__ = ["THIS_HOST", "Executor", "ExecutorChoice", "check_choice", "open_executor", "usable_cores"]
