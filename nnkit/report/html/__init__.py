"""`report.html`: a build as one page that opens without a network, made of the files in its folder."""

from nnkit.report.html.page import write_page

__all__ = ["write_page"]
