"""`report.html`, a build as one page that opens without a network, and `sweep.html`, several side by side."""

from nnkit.report.html.page import write_page
from nnkit.report.html.sweep import sweep_html

__all__ = ["sweep_html", "write_page"]
