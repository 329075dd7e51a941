"""What tests ask of a trace that was read: rows with names in place of indices, and its gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from decodeprof.analysis.gaps import Gaps, find_gaps
from decodeprof.analysis.launches import LAUNCH_KINDS, latency_floors, launches_of
from decodeprof.analysis.steps.cuts import Context
from decodeprof.analysis.steps.find import find_steps
from decodeprof.analysis.steps.found import Steps
from decodeprof.ingest.read import read_trace
from decodeprof.ingest.torch_trace import parse
from decodeprof.model.trace import Trace
from tests.build import LATENCY_NS
from tests.scenario import Scenario
from tests.write_kineto import MODERN, Dialect, kineto

TYPICAL_NS = dict.fromkeys(LAUNCH_KINDS, LATENCY_NS)


def trace_of(scenario: Scenario, layout: str = "to_2_11", dialect: Dialect = MODERN) -> Trace:
    """Write a scenario and read it back."""
    return parse(kineto(scenario, layout, dialect), name="synthetic.json")


def read_bytes(folder: Path, data: bytes, name: str = "trace.json") -> Trace:
    """Write bytes to a file and read it as a user's."""
    path = folder / name
    path.write_bytes(data)
    return read_trace(path)


def gaps_of(trace: Trace, device: int = 0) -> Gaps:
    """Gaps with the floors that the trace itself shows."""
    launches = launches_of(trace, device)
    floors = latency_floors(trace, launches, recorded_ns=None, typical_ns=TYPICAL_NS)
    return find_gaps(trace, device, launches=launches, floors=floors)


def causes_of(trace: Trace, device: int = 0) -> dict[str, int]:
    """Idle ns by cause over a device's whole span."""
    mine = trace.device.device == device
    start = int(trace.device.start_ns[mine].min())
    return gaps_of(trace, device).causes_within(start, int(trace.device.end_ns[mine].max()))


def steps_of(trace: Trace, *, new_tokens: int | None = None, device: int = 0) -> Steps:
    """The steps of a trace."""
    return find_steps(trace, device=device, context=Context(new_tokens=new_tokens))


def content(trace: Trace, *, threads: bool = True) -> dict[str, Any]:
    """Everything a trace says, with no indices and no order: equal for equal recordings."""

    def thread(index: int) -> str:
        return trace.threads[index] if threads else ""

    calls = trace.calls
    linked = [
        None if call < 0 else (int(calls.start_ns[call]), trace.names[calls.name[call]])
        for call in trace.device.call.tolist()
    ]
    tables: dict[str, Any] = {}
    for name in ("device", "calls", "ops", "annotations", "frames", "syncs"):
        table = getattr(trace, name)
        columns = []
        for key, column in vars(table).items():
            values = column.tolist()
            if key == "name":
                values = [trace.names[i] for i in values]
            elif key == "thread":
                values = [thread(i) for i in values]
            elif key == "call":
                values = linked
            elif key == "detail":
                values = [None if i < 0 else trace.op_details[i] for i in values]
            columns.append(values)
        tables[name] = sorted(zip(*columns, strict=True), key=repr)
    return {
        **tables,
        "devices": trace.devices,
        "captured": trace.captured,
        "pauses": trace.profiler_overhead_ns,
        "caveats": trace.caveats,
    }
