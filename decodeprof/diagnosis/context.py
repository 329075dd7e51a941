"""What the recording says of its own making: target, machine, passes, caveats."""

from __future__ import annotations

import shlex

from decodeprof import units
from decodeprof.analysis.queue import latencies
from decodeprof.diagnosis.evidence import Evidence
from decodeprof.diagnosis.rows import distribution
from decodeprof.model.diagnosis import About, Distribution, Generation, PassNote
from decodeprof.recording import Recording, Run, Target

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
        command=_command(recording.target),
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
            "partitions": [
                *([f"{compiled.partitions} of one function"] if compiled.partitions else []),
                *compiled.partition_reasons,
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


def _command(target: Target) -> str:
    """What records a target again."""
    words = ["decodeprof", "diagnose", target.spec]
    for each in target.given:
        words += ["--arg", each]
    if target.setup is not None:
        words += ["--setup", target.setup]
    if target.new_tokens_from == "--new-tokens":
        words += ["--new-tokens", str(target.new_tokens)]
    unknown = target.arguments and not target.given and target.setup is None
    return shlex.join(words) + (" --arg …" if unknown else "")


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
    runs, batch = recording.timing.runs, recording.target.batch
    step = unprofiled_step(recording)
    per_step = _tokens_per_step(runs)
    firsts = [r.first_token_ns for r in runs if r.first_token_ns is not None]
    # Without a sign of it, it is there by the time the second forward begins.
    ceilings = [r.ttft_ns for r in runs if r.ttft_ns is not None]
    told = firsts or ceilings
    until = next((r.first_token_by for r in runs if r.first_token_ns is not None), "second_forward")
    counted = recording.target.new_tokens_from not in _AMBIGUOUS
    return Generation(
        ttft_ns=distribution(told),
        ttft_until=until if told else None,
        tokens_per_s=round((batch or 1) * per_step * 1e9 / step.median, 3)
        if step and step.median and counted
        else None,
        tokens_per_step=round(per_step, 3),
        new_tokens=recording.target.new_tokens,
        batch=batch,
        runs=len(runs),
    )


# Numbers in lists are a batch's, or several of one sequence.
_AMBIGUOUS = ("yielded lists", "returned lists")


def _tokens_per_step(runs: list[Run]) -> float:
    """Tokens that a forward makes of each sequence; 1 where none, or no token, was counted.

    One token and one forward may each stand apart: a prefill that makes none, a last forward whose
    token is not used.
    """
    tokens = sum(run.tokens or 0 for run in runs)
    forwards = sum(run.steps + 1 for run in runs)
    uneven = abs(tokens - forwards) > len(runs)
    return tokens / forwards if uneven and tokens and any(run.steps for run in runs) else 1.0


def unprofiled_step(recording: Recording | None) -> Distribution | None:
    """Unprofiled decode step time; the first and last step of each call are left out.

    Where single steps were not timed, the slope of wall time between two token counts, alone.
    """
    if recording is None or recording.timing is None:
        return None
    timing = recording.timing
    samples = [ns for run in timing.runs for ns in run.inner_step_ns()]
    if samples:
        return distribution(samples)
    if timing.slope_ns_per_token is not None and timing.slope_ns_per_token > 0:
        return Distribution(
            median=timing.slope_ns_per_token, p10=None, p90=None, n=len(timing.runs)
        )
    return None


def unprofiled_prefill(recording: Recording | None) -> Distribution | None:
    """Unprofiled time of the prefill: from the call until the second forward begins."""
    if recording is None or recording.timing is None:
        return None
    return distribution([r.ttft_ns for r in recording.timing.runs if r.ttft_ns is not None])


_ENDED = {"failed": "failed", "partial": "was done in part"}


def caveats_of(evidence: Evidence, *, dilation: float | None) -> list[str]:
    """What a reader must know before believing a number, one sentence each."""
    trace, recording = evidence.trace, evidence.recording
    texts = list(trace.caveats)
    if evidence.loaded.nsys is not None:
        texts += [f"nsys: {text}" for text in evidence.loaded.nsys.caveats]
        if (
            evidence.nsys is not None
            and len(evidence.nsys.trace.device)
            and not evidence.nsys.decode
        ):
            texts.append(
                "nsys: no decode step was found in its trace, so it is not among the sources that "
                "are set side by side"
            )
    if recording is None:
        texts.append(
            "This trace came alone: it has no unprofiled time, so every time here is profiled "
            "time, in which the host is slower than it really is."
        )
    else:
        texts += recording.caveats
        texts += [
            f"The {p.name} pass {_ENDED[p.status]}: {p.reason}"
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
                f"{units.counted(early, 'activity starts', 'activities start')} before "
                f"{'its' if early == 1 else 'their'} launch: the host's and the "
                "device's clocks disagree."
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
