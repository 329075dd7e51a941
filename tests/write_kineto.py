"""A `Scenario` as the JSON text of torch.profiler, in every form that its versions have written.

A `Dialect` is what a version says (categories, how times and threads are written); a layout is how
the text lies on the lines. Rows that carry no meaning for the analysis (flows, metadata, GPU copies
of annotations, the window's end a day away) are written as the profiler writes them.
"""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.scenario import Activity, Call, Range, Scenario

LAYOUTS = ("to_2_11", "from_2_13", "one_line", "indent_2", "indent_4")
BASE_NS = 1_790_857_026_000_000_000
"""`baseTimeNanoseconds`."""
OFFSET_NS = 5_123_108_927_314_000
"""Where the first event lies after the base."""
DAY_NS = 86_400_000_000_000

_OLD = {
    "kernel": "Kernel",
    "gpu_memcpy": "Memcpy",
    "gpu_memset": "Memset",
    "cuda_runtime": "Runtime",
    "cuda_driver": "Runtime",
    "cpu_op": "Operator",
}


class Number(str):
    """Digits that go into the file as they are."""

    __slots__ = ()


@dataclass(frozen=True)
class Dialect:
    """What one era of the profiler writes."""

    bare_list: bool = False
    old_categories: bool = False
    times: str = "relative"
    """relative | absolute (no base) | whole_us (int, absolute) | text (relative, in quotes)."""
    text_tids: bool = False
    device_properties: list[dict[str, Any]] | None = None
    pid: int = 429
    seed: int | None = None
    """Shuffles the rows."""
    flows: bool = True
    distributed: dict[str, Any] | None = None
    """`distributedInfo`."""


MODERN = Dialect()
LIST_2020 = Dialect(bare_list=True, old_categories=True, times="whole_us", text_tids=True)
WHOLE_US_2021 = Dialect(times="whole_us", text_tids=True)
ABSOLUTE_2024 = Dialect(times="absolute")
TEXT_TIMES = Dialect(times="text")

Event = dict[str, Any]
_H200: dict[str, Any] = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150109880320,
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}


def kineto(scenario: Scenario, layout: str = "to_2_11", dialect: Dialect = MODERN) -> bytes:
    """The file's text."""
    events = events_of(scenario, dialect)
    top: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [_H200]
        if dialect.device_properties is None
        else dialect.device_properties,
        "cuda_driver_version": 13000,
        "displayTimeUnit": "ms",
    }
    if dialect.distributed is not None:
        top["distributedInfo"] = dialect.distributed
    if dialect.times in ("relative", "text"):
        top["baseTimeNanoseconds"] = BASE_NS
    return lay_out(top, events, layout, bare_list=dialect.bare_list).encode()


def write(
    path: Path, scenario: Scenario, layout: str = "to_2_11", dialect: Dialect = MODERN
) -> Path:
    """Write the file, packed when its name ends in .gz."""
    text = kineto(scenario, layout, dialect)
    path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
    return path


def lay_out(
    top: dict[str, Any], events: list[Event], layout: str, *, bare_list: bool = False
) -> str:
    """Put the top level and the events into one of `LAYOUTS`."""
    if layout == "one_line":
        plain = [_plain(event) for event in events]
        return json.dumps(plain if bare_list else {**top, "traceEvents": plain})
    if layout.startswith("indent_"):
        plain = [_plain(event) for event in events]
        # Someone's filter put objects of its own before the events.
        extra = {"filter": {"kept": {"ph": "X"}, "by": ["ts", "dur"]}}
        whole = plain if bare_list else {**top, **extra, "traceEvents": plain}
        return json.dumps(whole, indent=int(layout[-1]))
    one = _event_to_2_11 if layout == "to_2_11" else _event_from_2_13
    body = ",\n".join(one(event) for event in events)
    if bare_list:
        return f"[\n{body}\n]\n"
    head = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in top.items())
    blank = "\n  " if layout == "from_2_13" else ""
    tail = '\n  ],"traceName": "x.json" }' if blank else '\n  ],\n  "traceName": "x.json"\n}'
    return f'\n  {{\n{head},\n  "traceEvents": [{blank}\n{body}{tail}'


def _plain(value: Any) -> Any:
    """What json.load makes of it: decimals become floats."""
    if isinstance(value, Number):
        return float(value) if set(".e") & set(value) else int(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _text(value: Any) -> str:
    return str(value) if isinstance(value, Number) else json.dumps(value)


def _fields(event: Event, keys: tuple[str, ...]) -> list[str]:
    return [f'"{key}": {_text(event[key])}' for key in keys if key in event]


_FIRST = ("ph", "id", "cat", "name", "s", "pid", "tid")
_SECOND = ("ts", "dur", "bp")


def _event_to_2_11(event: Event) -> str:
    lines = [", ".join(_fields(event, _FIRST)), ", ".join(_fields(event, _SECOND))]
    if "args" in event:
        # The blanks after some commas are the profiler's own.
        inner = ",      ".join(f"{json.dumps(k)}: {_text(v)}" for k, v in event["args"].items())
        lines.append(f'"args": {{\n            {inner}\n    }}')
    return "  {\n    " + ",\n    ".join(lines) + "\n  }"


def _event_from_2_13(event: Event) -> str:
    lines = ",\n    ".join(_fields(event, _FIRST + _SECOND))
    args = ""
    if "args" in event:
        inner = ", ".join(f"{json.dumps(k)}: {_text(v)}" for k, v in event["args"].items())
        args = f'\n    ,\n    "args": {{\n      {inner}\n    }}'
    return f"  {{\n    {lines}{args}\n  }}"


def events_of(scenario: Scenario, dialect: Dialect = MODERN) -> list[Event]:
    """The rows of `traceEvents`."""
    write = _Rows(dialect)
    rows = [write.metadata()]
    rows += [write.activity(a) for a in scenario.activities]
    rows += [write.call(c) for c in scenario.calls]
    rows += [write.op(o) for o in scenario.ops]
    rows += [write.range(a, "user_annotation") for a in scenario.annotations]
    rows += [write.gpu_annotation(a) for a in scenario.annotations]
    rows += [write.range(f, "python_function") for f in scenario.frames]
    for wait in scenario.waits:
        row = write.row("cuda_sync", wait.kind, wait.start_ns, wait.end_ns, pid=wait.device, tid=7)
        row["args"] = {
            "cuda_sync_kind": wait.kind,
            "stream": wait.stream,
            "correlation": wait.correlation,
            "device": wait.device,
        }
        rows.append(row)
    rows += [
        write.row("overhead", "Activity Buffer Request", a, b, pid=-1, tid=0)
        for a, b in scenario.pauses
    ]
    if dialect.flows:
        rows += write.flows(scenario)
    random.Random(dialect.seed).shuffle(rows) if dialect.seed is not None else None
    rows.append(write.window_end())
    return rows


class _Rows:
    """Writes one row of each kind in a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def time(self, ns: int, *, length: bool = False) -> Any:
        if not length:
            ns += OFFSET_NS
            if self.dialect.times in ("absolute", "whole_us"):
                ns += BASE_NS
        if self.dialect.times == "whole_us":
            assert ns % 1000 == 0, f"{ns} ns is no whole µs: not for this dialect"
            return Number(ns // 1000)
        text = f"{ns // 1000}.{ns % 1000:03d}"
        return text if self.dialect.times == "text" else Number(text)

    def row(
        self, category: str, name: str, start: int, end: int, *, pid: Any, tid: Any
    ) -> dict[str, Any]:
        if self.dialect.old_categories:
            category = _OLD.get(category, category)
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": self.time(start),
            "dur": self.time(end - start, length=True),
        }

    def _thread(self, thread: str) -> Any:
        return thread if self.dialect.text_tids or not thread.isdigit() else int(thread)

    def range(self, what: Range, category: str) -> Event:
        tid = self._thread(what.thread)
        row = self.row(
            category, what.name, what.start_ns, what.end_ns, pid=self.dialect.pid, tid=tid
        )
        row["args"] = {"Ev Idx": 0}
        if category == "python_function":
            row["args"] = {"Python parent id": None, "Python id": 1}
        return row

    def op(self, op: Range) -> Event:
        row = self.range(op, "cpu_op")
        row["args"] = {"External id": op.external, "Sequence number": 0}
        if op.shapes is not None:
            row["args"]["Input Dims"] = [list(shape) for shape in op.shapes]
            row["args"]["Input type"] = ["c10::BFloat16"] * len(op.shapes)
        return row

    def call(self, call: Call) -> Event:
        category = "cuda_driver" if call.driver else "cuda_runtime"
        row = self.row(
            category,
            call.name,
            call.start_ns,
            call.end_ns,
            pid=self.dialect.pid,
            tid=self._thread(call.thread),
        )
        row["args"] = {"cbid": 211, "correlation": call.correlation}
        if call.external:
            row["args"]["External id"] = call.external
        return row

    def activity(self, a: Activity) -> Event:
        category = {"kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}[a.kind]
        tid = f"stream {a.stream}" if self.dialect.text_tids else a.stream
        row = self.row(category, a.name, a.start_ns, a.end_ns, pid=a.device, tid=tid)
        args: dict[str, Any] = {"External id": a.external} if a.external else {}
        args |= {"device": a.device, "context": 1, "stream": a.stream}
        args["correlation"] = a.correlation
        if a.kind == "kernel":
            args |= {"registers per thread": 32, "blocks per SM": "inf"}
            args |= {"grid": list(a.grid), "block": list(a.block)}
        else:
            args |= {"bytes": a.bytes, "memory bandwidth (GB/s)": 0.005208333333333333}
        if a.node >= 0:
            args["graph node id"] = a.node
        row["args"] = args
        return row

    def gpu_annotation(self, a: Range) -> Event:
        row = self.row("gpu_user_annotation", a.name, a.start_ns - 1, a.end_ns + 2, pid=0, tid=7)
        if self.dialect.times == "whole_us":
            row |= {"ts": self.time(a.start_ns), "dur": self.time(0, length=True)}
        return row

    def flows(self, scenario: Scenario) -> list[Event]:
        rows: list[Event] = []
        for ph, ends in (("s", scenario.calls), ("f", scenario.activities)):
            for end in ends:
                row = {"ph": ph, "id": end.correlation, "pid": 0, "tid": 7, "cat": "ac2g"}
                row |= {"ts": self.time(end.start_ns), "name": "ac2g", "bp": "e"}
                rows.append(row)
        return rows

    def metadata(self) -> Event:
        return {
            "ph": "M",
            "name": "process_name",
            "ts": self.time(0),
            "pid": self.dialect.pid,
            "tid": 0,
            "args": {"name": "python"},
        }

    def window_end(self) -> Event:
        row = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": ""}
        return row | {"ts": self.time(DAY_NS)}
