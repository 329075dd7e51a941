"""Everything that was computed from one trace, gathered once for judging and for drawing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from decodeprof import hardware
from decodeprof.analysis.figures import PhaseFigures, StepCounts, count_steps, phase_figures
from decodeprof.analysis.gaps import Gaps, find_gaps
from decodeprof.analysis.launches import LatencyFloors, Launches, latency_floors, launches_of
from decodeprof.analysis.nesting import Nesting, nest
from decodeprof.analysis.sites import BlockingSite, Place, Seen, sites_of
from decodeprof.analysis.steps.cuts import Context
from decodeprof.analysis.steps.find import find_steps
from decodeprof.analysis.steps.found import Steps
from decodeprof.analysis.traffic.columns import KernelTraffic
from decodeprof.analysis.traffic.kernels import kernel_traffic
from decodeprof.diagnosis.load import Loaded
from decodeprof.model.trace import I64, Trace
from decodeprof.recording import Recording, SyncPass


@dataclass(frozen=True)
class Evidence:
    """What the analysis found in one trace."""

    loaded: Loaded
    device: int | None
    """The device that the figures are of: the busiest; None: nothing ran on any."""
    steps: Steps
    counts: StepCounts
    launches: Launches | None
    floors: LatencyFloors | None
    gaps: Gaps | None
    decode: PhaseFigures | None
    prefill: PhaseFigures | None
    decode_sites: list[BlockingSite]
    prefill_sites: list[BlockingSite]
    nesting: Nesting
    traffic: KernelTraffic | None = None
    """What each device activity moved and computed; None: nothing ran on a device."""
    nsys: Evidence | None = None
    """The same of what nsys recorded of the same target, where it was asked for."""

    @property
    def trace(self) -> Trace:
        """The trace."""
        return self.loaded.trace

    @property
    def recording(self) -> Recording | None:
        """The recording, if the trace is part of one."""
        return self.loaded.recording


def gather(loaded: Loaded) -> Evidence:
    """Run the analysis on what was loaded."""
    trace, recording = loaded.trace, loaded.recording
    device = busiest_device(trace)
    context = Context(new_tokens=_profiled_tokens(recording))
    steps = find_steps(trace, device=device if device is not None else 0, context=context)
    counts = count_steps(trace, steps)
    nesting = nest(trace)
    if device is None:
        return Evidence(
            loaded=loaded,
            device=None,
            steps=steps,
            counts=counts,
            launches=None,
            floors=None,
            gaps=None,
            decode=None,
            prefill=None,
            decode_sites=[],
            prefill_sites=[],
            nesting=nesting,
            nsys=_of_nsys(loaded),
        )
    launches = launches_of(trace, device)
    ceilings = recording.ceilings if recording else None
    floors = latency_floors(
        trace,
        launches,
        recorded_ns=ceilings.kernel_latency_ns if ceilings else None,
        typical_ns=hardware.TYPICAL_LATENCY_NS,
    )
    gaps = find_gaps(trace, device, launches=launches, floors=floors)
    seen = _seen(recording)

    def figures(rows: I64) -> PhaseFigures | None:
        return phase_figures(trace, steps, rows=rows, gaps=gaps, launches=launches, counts=counts)

    def sites(rows: I64) -> list[BlockingSite]:
        return sites_of(trace, steps, gaps, rows=rows, nesting=nesting, seen=seen)

    decode, prefill = steps.decode(), steps.rows("prefill")
    prefill = prefill[steps.measured[prefill]]
    return Evidence(
        loaded=loaded,
        device=device,
        steps=steps,
        counts=counts,
        launches=launches,
        floors=floors,
        gaps=gaps,
        decode=figures(decode),
        prefill=figures(prefill),
        decode_sites=sites(decode),
        prefill_sites=sites(prefill),
        nesting=nesting,
        traffic=kernel_traffic(
            trace, steps, references=(loaded.first_call,) if loaded.first_call else ()
        ),
        nsys=_of_nsys(loaded),
    )


def _profiled_tokens(recording: Recording | None) -> int | None:
    """Tokens of the call that was profiled, which may be shorter than the timed ones."""
    if recording is None:
        return None
    profiled = next((p for p in recording.passes if p.name == "profile"), None)
    if profiled is not None and profiled.new_tokens is not None:
        return profiled.new_tokens
    return recording.target.new_tokens


def _of_nsys(loaded: Loaded) -> Evidence | None:
    if loaded.nsys is None:
        return None
    return gather(Loaded(trace=loaded.nsys, recording=None, name=loaded.nsys.name))


def busiest_device(trace: Trace) -> int | None:
    """The device with the most activities; None when nothing ran."""
    if not len(trace.device):
        return None
    devices, counts = np.unique(trace.device.device, return_counts=True)
    return int(devices[counts.argmax()])


def _seen(recording: Recording | None) -> tuple[Seen, ...]:
    if recording is None:
        return ()
    passes = (("gpu_trace", recording.gpu_trace), ("sync_debug", recording.sync_debug))
    return tuple(_seen_by(name, found) for name, found in passes if found is not None)


def _seen_by(name: str, found: SyncPass) -> Seen:
    places: dict[int, list[Place]] = defaultdict(list)
    kinds: dict[int, list[str]] = defaultdict(list)
    all_places = [
        Place(file=s.file, line=s.line, function=s.function, code=s.code, stack=tuple(s.stack))
        for s in found.sites
    ]
    for event in found.events:
        places[event.step].append(all_places[event.site])
        kinds[event.step].append(event.kind)
    return Seen(source=name, places=dict(places), kinds=dict(kinds), steps=found.steps)
