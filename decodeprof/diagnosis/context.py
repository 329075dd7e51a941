"""What the recording says of its own making: target, machine, passes, caveats."""

from __future__ import annotations

from decodeprof import units
from decodeprof.analysis.queue import latencies
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.rows import distribution
from decodeprof.model.diagnosis import About, Distribution, Generation, PassNote
from decodeprof.recording import Recording

# A profile that makes a step this much longer than it is distorts what the host did in it.
HIGH_DILATION = 1.5


def about_of(evidence: Evidence) -> About:
    """The context for the report's last section."""
    recording = evidence.recording
    if recording is None:
        name = next((d.name for d in evidence.trace.devices if d.index == evidence.device), None)
        return About(device=name, environment=dict(evidence.trace.versions))
    env = recording.environment
    environment = {
        "python": env.python,
        "torch": env.torch,
        "cuda": env.cuda,
        "driver": env.driver,
        "cpu": env.cpu,
        "platform": env.platform,
        **env.packages,
    }
    ceilings = recording.ceilings
    allocator, model, compiled = recording.allocator, recording.model, recording.compile
    return About(
        target=recording.target.spec,
        arguments=dict(recording.target.arguments),
        device=recording.device.name if recording.device else None,
        environment={k: v for k, v in environment.items() if v},
        passes=[
            PassNote(name=p.name, status=p.status, reason=p.reason, seconds=round(p.seconds, 3))
            for p in recording.passes
        ],
        ceilings=_filled(ceilings),
        allocator={k: int(v) for k, v in _filled(allocator).items()},
        compile={
            "graph breaks": list(compiled.graph_breaks),
            "recompiles": list(compiled.recompiles),
            "cudagraph skips": [
                f"{s.reason}{f' ({s.where})' if s.where else ''}" for s in compiled.cudagraph_skips
            ],
        }
        if compiled
        else {},
        model={
            k: v
            for k, v in (
                ("name", model.name),
                ("parameters", model.parameters),
                ("parameter bytes", model.parameter_bytes),
                ("buffer bytes", model.buffer_bytes),
            )
            if v
        }
        if model
        else {},
    )


def _filled(struct: object) -> dict[str, float]:
    if struct is None:
        return {}
    fields: tuple[str, ...] = getattr(struct, "__struct_fields__", ())
    values = {name: getattr(struct, name) for name in fields}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def generation_of(recording: Recording | None) -> Generation | None:
    """TTFT and tokens a second from the unprofiled runs; None where there are none."""
    if recording is None or recording.timing is None or not recording.timing.runs:
        return None
    runs = recording.timing.runs
    step = unprofiled_step(recording)
    batch = recording.target.batch or 1
    return Generation(
        ttft_ns=distribution([r.ttft_ns for r in runs if r.ttft_ns is not None]),
        tokens_per_s=round(batch * 1e9 / step.median, 3) if step and step.median else None,
        new_tokens=recording.target.new_tokens,
        batch=recording.target.batch,
        runs=len(runs),
    )


def unprofiled_step(recording: Recording | None) -> Distribution | None:
    """Unprofiled decode step time; the first and last step of each call are left out.

    Where single steps were not timed, the slope of wall time between two token counts, alone.
    """
    if recording is None or recording.timing is None:
        return None
    timing = recording.timing
    samples = [
        ns
        for run in timing.runs
        for ns in (run.step_ns[1:-1] if len(run.step_ns) > 2 else run.step_ns)
    ]
    if samples:
        return distribution(samples)
    if timing.slope_ns_per_token is not None and timing.slope_ns_per_token > 0:
        return Distribution(
            median=timing.slope_ns_per_token, p10=None, p90=None, n=len(timing.runs)
        )
    return None


def unprofiled_prefill(recording: Recording | None) -> Distribution | None:
    """Unprofiled time to the first token: the prefill with what precedes it."""
    generation = generation_of(recording)
    return generation.ttft_ns if generation else None


def caveats_of(evidence: Evidence, *, dilation: float | None) -> list[str]:
    """What a reader must know before believing a number, one sentence each."""
    trace, recording = evidence.trace, evidence.recording
    texts = list(trace.caveats)
    if evidence.loaded.nsys is not None:
        texts += [f"nsys: {text}" for text in evidence.loaded.nsys.caveats]
    if recording is None:
        texts.append(
            "This trace came alone: it has no unprofiled time, so every time here is profiled "
            "time, in which the host is slower than it really is."
        )
    else:
        texts += recording.caveats
        texts += [
            f"The {p.name} pass {p.status}: {p.reason}"
            for p in recording.passes
            if p.status in ("failed", "partial")
        ]
    if dilation is not None and dilation > HIGH_DILATION:
        texts.append(
            f"The profiler made a step {units.ratio(dilation)} as long as it is: idle causes show "
            "where the time goes, not how much of it there is."
        )
    if evidence.launches is not None:
        early = int((latencies(trace, evidence.launches) < 0).sum())
        if early:
            texts.append(
                f"{early:,} activities start before their launch: the host's and the device's "
                "clocks disagree."
            )
    if evidence.floors is not None and "typical" in evidence.floors.source.values():
        kinds = sorted(
            k
            for k, s in evidence.floors.source.items()
            if s == "typical" and evidence.floors.samples[k]
        )
        if kinds:
            texts.append(
                f"Launch latency floors of {', '.join(kinds)} launches are typical values, not "
                "measured: too few launches found the device idle."
            )
    if len(trace.devices) > 1:
        texts.append(
            f"{len(trace.devices)} devices were used; step figures are of device "
            f"{evidence.device}, the one with the most activities."
        )
    orphans = int((trace.device.call < 0).sum())
    if orphans and orphans == len(trace.device) and "calls" not in trace.captured:
        texts.append("No API calls were recorded: why the device was idle is not known.")
    return texts
