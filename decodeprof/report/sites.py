"""Which lines block the host, and which kernels fill the device's time?"""

from __future__ import annotations

from typing import Literal

from decodeprof import units
from decodeprof.model.diagnosis import Diagnosis, KernelRow, StepFigures, SyncSite
from decodeprof.report.blocks import (
    Block,
    Column,
    Line,
    Note,
    Row,
    Section,
    Span,
    Table,
    line,
)
from decodeprof.report.names import place, short_kernel_name, told_apart

MOST_SITES = 12
"""Sites shown; a loop with more is named by its worst, and the JSON has them all."""
MOST_KERNELS = 10
"""Kernel names shown, for the same reason."""
NAME_WIDTH = 46
"""Characters of a kernel's short name; the figures beside it fit 80 columns."""
NS_PER_S = 1_000_000_000

_SYNC_COLUMNS = (
    Column("calls", "right"),
    Column("in call", "right"),
    Column("idle inside", "right"),
    Column("idle after", "right"),
    Column("exposed", "right"),
    Column("seen by"),
)
_DASH = "–"


def syncs_section(diagnosis: Diagnosis) -> Section:
    """Blocking calls of a steady decode step, worst first as the diagnosis orders them."""
    sites = [site for site in diagnosis.syncs if site.phase == "decode"]
    title = "Blocking calls in a decode step"
    return Section("syncs", title, _sites_blocks(diagnosis, sites, "decode"))


def prefill_syncs(diagnosis: Diagnosis) -> tuple[Block, ...]:
    """Blocking calls of the prompt pass."""
    sites = [site for site in diagnosis.syncs if site.phase == "prefill"]
    if diagnosis.prefill is None:
        return ()
    return _sites_blocks(diagnosis, sites, "prefill")


def _sites_blocks(
    diagnosis: Diagnosis, sites: list[SyncSite], phase: Literal["decode", "prefill"]
) -> tuple[Block, ...]:
    if not sites:
        return (_no_sites(diagnosis, phase),)
    rows = tuple(_site_row(number, site) for number, site in enumerate(sites[:MOST_SITES], 1))
    left = len(sites) - len(rows)
    more = "" if left <= 0 else f"{units.counted(left, 'more site')}: see the JSON"
    table = Table(_SYNC_COLUMNS, rows, more)
    per = "step" if phase == "decode" else "prefill"
    legend = (
        f"per {per}; exposed: what removing the call would save, not how long it lasts"
        f"; {_DASH} unknown"
    )
    if any(site.call_ns is None for site in sites[:MOST_SITES]):
        # Detectors run in calls of their own, and see a call once in as many steps.
        legend += (
            "; where the trace did not see a call, its number is the detector's: what it counted "
            "÷ the steps that it watched"
        )
    return (table, Note("hint", line(legend)))


def _no_sites(diagnosis: Diagnosis, phase: Literal["decode", "prefill"]) -> Note:
    figures = diagnosis.step if phase == "decode" else diagnosis.prefill
    if "calls" not in diagnosis.source.captured:
        return Note("unknown", line("unknown: no CUDA API call was captured"))
    if figures is None:
        return Note("unknown", line("unknown: no step was found to count them in"))
    if figures.syncs:
        return Note("unknown", line(_uncalled(figures)))
    where = "a decode step" if phase == "decode" else "the prefill"
    return Note("none", line(f"none: API calls were captured, and {where} holds no blocking one"))


def _uncalled(figures: StepFigures) -> str:
    calls = units.counted(figures.syncs, "blocking call")
    return f"{calls} a step; where they are made is unknown"


def _site_row(number: int, site: SyncSite) -> Row:
    cells = (
        line(units.count(site.calls_per_step)),
        _time(site.call_ns),
        _time(site.idle_inside_ns),
        _time(site.idle_after_ns),
        _time(site.exposed_ns),
        line(Span(" ".join(site.seen_by) or _DASH, "muted")),
    )
    return Row(cells, above=_site_heading(number, site))


def _site_heading(number: int, site: SyncSite) -> tuple[Line, ...]:
    where = place(site.file, site.line) if site.file else f"in {site.op or site.api or 'a call'}"
    spans = [Span(f"{number} ", "muted"), Span(where, "place")]
    if site.file is None:
        spans.append(Span("  source line not recorded", "unknown"))
    if site.function:
        spans.append(Span(f" in {site.function}"))
    lines = [tuple(spans)]
    if site.code:
        lines.append(line(Span(site.code.strip(), "code")))
    how = " ← ".join(part for part in (site.api, site.op) if part)
    caller = site.in_user_code
    if caller == f"{place(site.file, site.line)} {site.function}":
        caller = None
    told = [part for part in (how, caller and f"called from {caller}") if part]
    if told:
        lines.append(line(Span(", ".join(told), "muted")))
    return tuple(lines)


def _time(ns: int | None) -> Line:
    return line(Span(_DASH, "unknown") if ns is None else units.time(ns))


def kernels_section(diagnosis: Diagnosis) -> Section:
    """Kernels of a step: by family, then the names that take longest."""
    title = "Kernels, whole window"
    if diagnosis.step is not None or diagnosis.prefill is not None:
        title = "Kernels in a decode step" if diagnosis.step else "Kernels in the prefill"
    if not diagnosis.kernels:
        return Section("kernels", title, (_no_kernels(diagnosis),))
    families = [row for row in diagnosis.kernels if row.name is None]
    named = merged_by_short_name([row for row in diagnosis.kernels if row.name is not None])
    total = sum(row.time_ns_per_step for row in families or named)
    blocks: list[Block] = []
    for rows, first, most in ((families, "family", len(families)), (named, "name", MOST_KERNELS)):
        if rows:
            blocks.append(kernel_table(rows, first=first, most=most, total_ns=total))
    if not any(row.achieved_bytes_per_s for row in diagnosis.kernels):
        blocks.append(Note("unknown", line("bytes moved by kernels: unknown")))
    return Section("kernels", title, tuple(blocks))


def merged_by_short_name(rows: list[KernelRow]) -> list[KernelRow]:
    """Rows of one family whose short names agree as one row, longest time first.

    They are instances of one template for other types or sizes; the JSON keeps them apart.
    """
    groups: dict[tuple[str, str], list[KernelRow]] = {}
    for row in rows:
        groups.setdefault((row.family, short_kernel_name(row.name or "")), []).append(row)
    merged = [_sum_of(family, name, group) for (family, name), group in groups.items()]
    return sorted(merged, key=lambda row: (-row.time_ns_per_step, row.name or ""))


def _sum_of(family: str, name: str, rows: list[KernelRow]) -> KernelRow:
    time_ns = sum(row.time_ns_per_step for row in rows)
    known = [row.bytes for row in rows if row.bytes is not None]
    moved = sum(known) if len(known) == len(rows) else None
    return KernelRow(
        family=family,
        name=name,
        count_per_step=sum(row.count_per_step for row in rows),
        time_ns_per_step=time_ns,
        bytes=moved,
        achieved_bytes_per_s=moved * NS_PER_S / time_ns if moved and time_ns else None,
    )


def _no_kernels(diagnosis: Diagnosis) -> Note:
    if "device" not in diagnosis.source.captured:
        return Note("unknown", line("unknown: no device activity was captured"))
    if diagnosis.step is None:
        return Note("unknown", line("unknown: no step was found to count them in"))
    return Note("none", line("none: device activity was captured, and a step holds no kernel"))


def kernel_table(rows: list[KernelRow], *, first: str, most: int, total_ns: int) -> Table:
    """Rows of kernels under their columns.

    Args:
        rows: kernels or families, longest time first.
        first: the first column's title.
        most: rows to show; how many are left out is said.
        total_ns: what a row's share is of.
    """
    rates = any(row.achieved_bytes_per_s for row in rows)
    columns = [
        Column(first),
        Column("count", "right"),
        Column("time", "right"),
        Column("share", "right"),
    ]
    if rates:
        columns.append(Column("achieved", "right"))
    shown = rows[:most]
    left = len(rows) - len(shown)
    names = told_apart([row.name or row.family for row in shown], NAME_WIDTH)
    return Table(
        tuple(columns),
        tuple(
            _kernel_row(row, name, total_ns=total_ns, rates=rates)
            for row, name in zip(shown, names, strict=True)
        ),
        "" if left <= 0 else f"{units.counted(left, 'more name')}: see the JSON",
    )


def _kernel_row(row: KernelRow, name: str, *, total_ns: int, rates: bool) -> Row:
    cells = [
        line(name),
        line(units.count(row.count_per_step)),
        line(units.time(row.time_ns_per_step)),
        line(units.share(row.time_ns_per_step / total_ns if total_ns else None)),
    ]
    if rates:
        achieved = row.achieved_bytes_per_s
        cells.append(line(_DASH if achieved is None else units.bandwidth(achieved)))
    return Row(tuple(cells))
