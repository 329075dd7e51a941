"""A diagnosis as one self-contained page: it opens offline and asks for nothing."""

from decodeprof.report.html.page import html
from decodeprof.report.html.templating import MARK

__all__ = ["MARK", "html"]
