"""Evidence to `Charts`: what a page draws, gathered from the trace and judged by nobody."""

from decodeprof.diagnosis.charts.gather import charts_of

__all__ = ["charts_of"]
