"""What is an activity, for telling whether two stretches of work are the same step?

Names without template arguments and digits; every matrix product one token (libraries pick
different kernels for different shapes), every attention kernel one, a graph launch one with its
number of activities.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from decodeprof.analysis.steps.graphs import graph_sizes
from decodeprof.model.families import family
from decodeprof.model.trace import I64, NONE, Trace

_TEMPLATE = re.compile(r"<[^<>]*>")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class LaunchSequence:
    """Launches in the order of their calls; all columns row-aligned."""

    token: I64
    start_ns: I64
    """The call's start."""
    activity: I64
    """Row in `Trace.device` of the call's first activity."""


def bare(name: str) -> str:
    """A kernel's name without template arguments and digits."""
    while True:
        shorter = _TEMPLATE.sub("", name)
        if shorter == name:
            return _DIGITS.sub("", name)
        name = shorter


def launch_sequence(trace: Trace) -> LaunchSequence:
    """The trace's launches as a sequence of tokens."""
    device = trace.device
    linked = np.flatnonzero(device.call != NONE).astype(np.int64)
    calls, first = np.unique(device.call[linked], return_index=True)
    activity = linked[first]
    order = np.lexsort((calls, trace.calls.start_ns[calls]))
    calls, activity = calls[order], activity[order]
    words: dict[str, int] = {}
    by_name = np.full(len(trace.names) + 1, NONE, np.int64)
    for name in np.unique(device.name[activity]).tolist():
        text = trace.names[name]
        kind = family(text)
        word = kind if kind in ("matrix", "attention") else bare(text)
        by_name[name] = words.setdefault(word, len(words))
    token = by_name[device.name[activity]]
    rows, sizes = graph_sizes(trace)
    size_of = np.zeros(len(trace.calls), np.int64)
    size_of[rows] = sizes
    graphs = size_of[calls] > 0
    token = np.where(graphs, -1 - size_of[calls], token)
    return LaunchSequence(token=token, start_ns=trace.calls.start_ns[calls], activity=activity)
