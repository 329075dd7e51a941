"""Tables that only the page has room for."""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.charts import Charts
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import Column, Row, Span, Table, line
from decodeprof.report.sites import MOST_KERNELS, kernel_table, merged_by_short_name

MOST_SHOWN = 20
"""Rows before the rest is folded away."""


def all_kernels(diagnosis: Diagnosis) -> Table | None:
    """Every kernel name of a step; None where the view's own table shows them all."""
    rows = merged_by_short_name([row for row in diagnosis.kernels if row.name is not None])
    if len(rows) <= MOST_KERNELS:
        return None
    total = sum(row.time_ns_per_step for row in diagnosis.kernels if row.name is None)
    return kernel_table(rows, first="name", most=len(rows), total_ns=total)


def call_sites(diagnosis: Diagnosis, charts: Charts) -> Table | None:
    """Where a step's kernels are launched from; None where that is not known."""
    sites = charts.call_sites
    if not sites:
        return None
    total = sum(row.time_ns_per_step for row in diagnosis.kernels if row.name is None)
    rates = any(site.achieved_bytes_per_s for site in sites)
    columns = [
        Column("launched by"),
        Column("count", "right"),
        Column("time", "right"),
        Column("share", "right"),
    ]
    if rates:
        columns.append(Column("achieved", "right"))
    rows = []
    for site in sites[:MOST_SHOWN]:
        cells = [
            line(site.where, *([Span(f"  {site.shapes}", "muted")] if site.shapes else [])),
            line(units.count(site.count)),
            line(units.time(site.time_ns)),
            line(units.share(site.time_ns / total if total else None)),
        ]
        if rates:
            known = site.achieved_bytes_per_s
            cells.append(line("–" if known is None else units.bandwidth(known)))
        rows.append(Row(tuple(cells)))
    left = len(sites) - len(rows)
    return Table(tuple(columns), tuple(rows), f"{left} more" if left > 0 else "")
