"""What came of capturing decode steps on an H200, as a person reads it: the text of a report.

The checks that were kept lie in fixtures/graph_check; `graph_check_h200.py` made them.
"""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path
from typing import Any

import msgspec

from decodeprof.analysis.graph_checked import checked
from decodeprof.model.graph_check import GraphCheck, GraphCheckRun
from decodeprof.report.graph_check import graph_check_view
from decodeprof.report.terminal import text

WIDTH = 100
HEAD = """\
Decode steps, captured on an H200 inside their own loops, or what stops that.
"""


def kept(path: Path) -> dict[str, Any]:
    """The checks in a file."""
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def judged(kept: dict[str, Any]) -> dict[str, GraphCheck]:
    """Each check by its name, as the command tells it."""
    runs = {
        name: checked(msgspec.convert(run, GraphCheckRun)) for name, run in kept["runs"].items()
    }
    return runs | {"piecewise": msgspec.convert(kept["piecewise"]["check"], GraphCheck)}


def timings(kept: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Steps that were predicted and measured, in ns: the whole one, and the one in two parts."""
    predicted = kept["predicted_ns"]["expected"]
    rows = [
        (f"one graph, {how}", predicted, measured)
        for how, medians in kept["measured_ns"].items()
        for measured in medians
    ]
    piecewise = kept["piecewise"]
    by_hand = statistics.median(piecewise["by_hand_ns"])
    return [*rows, ("two graphs, made by hand", piecewise["check"]["piecewise_ns"], by_hand)]


def report(kept: dict[str, Any]) -> str:
    """Predicted against measured, and every check in full."""
    lines = [HEAD, f"{'step':<38}{'predicted':>12}{'measured':>12}{'error':>8}"]
    lines += [
        f"{name:<38}{predicted / 1e6:>9.3f} ms{measured / 1e6:>9.3f} ms"
        f"{predicted / measured - 1:>+8.1%}"
        for name, predicted, measured in timings(kept)
    ]
    for name, found in judged(kept).items():
        lines += [
            "",
            f"-- {name} ".ljust(WIDTH, "-"),
            "",
            text(graph_check_view(found), width=WIDTH),
        ]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"
