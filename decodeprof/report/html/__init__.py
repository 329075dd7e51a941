"""A diagnosis as one self-contained page: it opens offline and asks for nothing."""

from decodeprof.report.html.page import MARK, html

__all__ = ["MARK", "html"]
