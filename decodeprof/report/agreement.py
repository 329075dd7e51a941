"""Do the sources that saw the same run agree? Their figures side by side, and why they differ."""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.diagnosis import AgreementRow, Diagnosis
from decodeprof.report.blocks import Column, Line, Row, Section, Span, Table, line

_SOURCES = {
    "unprofiled": "unprofiled",
    "sync_debug": "sync-debug",
    "gpu_trace": "gpu_trace",
    "torch": "torch",
    "nsys": "nsys",
}
"""As a site's sources are named; short, since all five stand beside each other in 80 cells."""
_QUANTITIES = {
    "kernels": "kernels",
    "launches": "kernel launches",
    "graph_launches": "graph launches",
    "syncs": "blocking calls",
    "busy_ns": "device busy",
    "step_ns": "step time",
}
_NOTHING = "–"
_ANSWERS = {
    True: line(Span("agree", "good")),
    False: line(Span("differ", "warning")),
    None: line(Span("alone", "muted")),
}
UNEXPLAINED = "unexplained: no count of either source shows why"


def agreement_section(diagnosis: Diagnosis) -> Section | None:
    """The table of sources; nothing where fewer than two saw the run."""
    agreement = diagnosis.agreement
    if agreement is None:
        return None
    columns = (
        Column("a decode step"),
        *(Column(_SOURCES[source], "right") for source in agreement.sources),
        Column(""),
    )
    rows = tuple(_row(row, agreement.sources) for row in agreement.rows)
    return Section("agreement", "Do the sources agree?", (Table(columns, rows),))


def _row(row: AgreementRow, sources: list[str]) -> Row:
    cells = [_value(row.quantity, row.values.get(source)) for source in sources]
    below: tuple[Line, ...] = ()
    if row.explanation:
        below = (line(Span(row.explanation, "muted")),)
    elif row.agrees is False:
        below = (line(Span(UNEXPLAINED, "warning")),)
    return Row((line(_QUANTITIES[row.quantity]), *cells, _ANSWERS[row.agrees]), below=below)


def _value(quantity: str, value: float | None) -> Line:
    if value is None:
        return line(Span(_NOTHING, "muted"))
    return line(units.time(value) if quantity.endswith("_ns") else units.count(value))
