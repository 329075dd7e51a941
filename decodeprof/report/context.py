"""What was looked at, how, what was left out, and what should be done next?"""

from __future__ import annotations

from decodeprof import units
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.report.blocks import (
    Block,
    Code,
    Fact,
    Facts,
    Listing,
    Note,
    Paragraph,
    Section,
    line,
)
from decodeprof.report.captured import ran_without_gpu

_CPU_CAN = (
    "This run had no GPU. It can tell: whether the loop runs, its prefill and decode steps, and "
    "how long they take on this CPU."
)
_CPU_CANNOT = (
    "It cannot tell: kernel times, launch cost, device idle time, what blocks the host, or whether "
    "decode is launch-bound or memory-bound on a GPU. These are unknown here, not zero."
)


def cpu_section(diagnosis: Diagnosis) -> Section | None:
    """What a CPU run can and cannot tell; nothing for a run on a GPU."""
    if not ran_without_gpu(diagnosis):
        return None
    return Section(
        "cpu",
        "A CPU run",
        (Paragraph(line(_CPU_CAN)), Paragraph(line(_CPU_CANNOT))),
    )


def steps_section(diagnosis: Diagnosis) -> Section:
    """How the steps were found, and what no per-step figure covers."""
    steps = diagnosis.steps
    counts = (
        f"{units.count(steps.prefill)} prefill, {units.count(steps.decode)} decode, "
        f"{units.count(steps.steady)} of them steady"
    )
    if ran_without_gpu(diagnosis):
        counts = f"{units.count(steps.prefill)} prefill, {units.count(steps.decode)} decode"
    elif steps.unmeasured:
        counts += f"; {units.count(steps.unmeasured)} without device times"
    blocks: list[Block] = [Paragraph(line(steps.method_text))]
    facts = [Fact("steps", line(counts))]
    if steps.query_length is not None:
        facts.append(Fact("query length", line(units.count(steps.query_length))))
    if steps.steps_per_period is not None and steps.steps_per_period > 1:
        every = f"every {units.count(steps.steps_per_period)} steps"
        facts.append(Fact("blocking calls", line(every)))
    blocks.append(Facts(tuple(facts)))
    # Without a GPU every step was left out of what the device did: that is said above.
    if steps.left_out and not ran_without_gpu(diagnosis):
        blocks.append(Listing(tuple(line(f"left out: {text}") for text in steps.left_out)))
    return Section("steps", "Steps", tuple(blocks))


def measured_section(diagnosis: Diagnosis) -> Section:
    """The recording's or trace's own facts, and what a pass could not do."""
    about = diagnosis.about
    facts = []
    if about.target is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in about.arguments.items())
        facts.append(Fact("target", line(about.target), line(arguments)))
    facts += _device_facts(diagnosis)
    facts += _count_facts(diagnosis)
    if about.environment:
        versions = ", ".join(f"{name} {value}" for name, value in about.environment.items())
        facts.append(Fact("software", line(versions)))
    blocks: list[Block] = [Facts(tuple(facts))]
    # One cause keeps many passes from running, so it is said once.
    unlike: dict[tuple[str, str], list[str]] = {}
    for note in about.passes:
        if note.status != "done":
            unlike.setdefault((note.status, note.reason), []).append(note.name)
    for (status, reason), names in unlike.items():
        word = "pass" if len(names) == 1 else "passes"
        why = f": {reason}" if reason else ""
        told = f"{', '.join(names)} {word} {_ENDED.get(status, status)}{why}"
        blocks.append(Note("unknown", line(told)))
    for kind, texts in about.compile.items():
        blocks += [Note("caveat", line(f"compile, {kind}: {text}")) for text in texts]
    return Section("measured", "What was measured", tuple(blocks))


_ENDED = {"partial": "done in part"}


def _device_facts(diagnosis: Diagnosis) -> list[Fact]:
    if ran_without_gpu(diagnosis):
        return [Fact("device", line("none"), line("the target ran on the CPU"))]
    if not diagnosis.devices:
        return [Fact("device", line(diagnosis.about.device or units.UNKNOWN))]
    rows = []
    for device in diagnosis.devices:
        name = device.name or diagnosis.about.device or units.UNKNOWN
        busy = f"busy {units.time(device.busy_ns)} of {units.time(device.span_ns)}, whole file"
        rows.append(Fact(f"device {device.index}", line(name), line(busy)))
    return rows


def _count_facts(diagnosis: Diagnosis) -> list[Fact]:
    counts = diagnosis.counts
    captured = diagnosis.source.captured
    if "device" not in captured:
        return []
    text = units.counted(counts.kernels, "kernel")
    if "calls" in captured:
        syncs = sum(counts.sync_calls.values())
        text += (
            f", {units.counted(counts.launches, 'kernel launch', 'kernel launches')}, "
            f"{units.counted(counts.graph_launches, 'graph launch', 'graph launches')}, "
            f"{units.counted(syncs, 'synchronize call')}"
        )
    else:
        text += "; API calls unknown, not captured"
    return [Fact("whole file", line(text))]


def caveats_section(diagnosis: Diagnosis) -> Section | None:
    """What to keep in mind when reading the figures."""
    notes = tuple(Note("caveat", line(text)) for text in diagnosis.caveats)
    return Section("caveats", "Caveats", notes) if notes else None


def next_section(diagnosis: Diagnosis) -> Section:
    """The next command, and why."""
    blocks: list[Block] = []
    command = diagnosis.about.command or "decodeprof diagnose my_script.py:generate"
    if ran_without_gpu(diagnosis):
        text = "on a machine with a GPU, the same command tells what bounds decode:"
    elif diagnosis.source.kind != "recording":
        text = (
            "a recording adds the unprofiled step time and the source line of each blocking call; "
            "where the loop can be run:"
        )
    elif diagnosis.step is None:
        text = "mark the loop's steps with `with decodeprof.step():`, then record again:"
    else:
        text = "change one thing, then record again and set the two reports side by side:"
    blocks.append(Paragraph(line(text)))
    blocks.append(Code(command))
    return Section("next", "Next", tuple(blocks))
