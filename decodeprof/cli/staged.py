"""Where do the figures of the worked example's stages come from: this GPU, or the recordings?"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from decodeprof import units
from decodeprof.errors import DecodeprofError
from decodeprof.model.diagnosis import Diagnosis
from decodeprof.reference.lessons import LESSONS
from decodeprof.report.stages import StageRow, StageTable

TIMEOUT_S = 900.0
"""A run takes some three minutes on an H200, most of it compiling; hosts differ by a few times."""
TABLE = "stages_table/stages_0p6b.json"
PLAIN = "plain_0p6b"
_COMMAND = (sys.executable, "-m", "decodeprof.reference.stage_runs")
_SAME = (
    "same: leading tokens that equal the plain loop's; in bf16 with random weights two "
    "tokens are at times nearly as likely, and a sum in another order may turn to the other one."
)
_MBU = "MBU: weight bytes ÷ step time ÷ the read bandwidth measured in the same run."


class _Measured(msgspec.Struct, frozen=True):
    """What one stage did in a run of all stages, as far as the table shows it."""

    name: str
    step_ns: int
    same_tokens: int
    compared_tokens: int
    kernels: float | None = None
    launches: float | None = None
    graph_launches: float | None = None
    syncs: float | None = None
    mbu_share: float | None = None


class _Measurements(msgspec.Struct, frozen=True):
    stages: list[_Measured]


def recorded_stages(fixtures: Path) -> StageTable:
    """The table of the recordings in a source checkout.

    Raises:
        DecodeprofError: they are not there.
    """
    from decodeprof.recording import read_recording

    if not (fixtures / TABLE).is_file():
        raise DecodeprofError(
            "there are no recorded stages to show here",
            why="an installed wheel holds none; they lie in `fixtures` of the source checkout",
            hint="run `decodeprof demo --stages` in a checkout, or on a machine with a GPU",
        )
    together = msgspec.json.decode((fixtures / TABLE).read_bytes(), type=_Measurements)
    by_name = {stage.name: stage for stage in together.stages}
    model = read_recording(fixtures / PLAIN).model
    weight_bytes = model.parameter_bytes if model is not None else None
    directories = {
        name: fixtures / (PLAIN if name == "plain" else f"stage_{name}") for name in LESSONS
    }
    rows = tuple(
        _recorded_row(name, directory, by_name.get(name), weight_bytes=weight_bytes)
        for name, directory in directories.items()
        if directory.is_dir()
    )
    recording = read_recording(directories["plain"])
    device = recording.device.name if recording.device is not None else "an unknown device"
    notes = (
        _MBU,
        "syncs and same: from one run of all stages in one process, since a recording holds "
        "fewer steps than the 16 between two stop checks; the other figures and the findings: from "
        'each stage\'s own recording. "-": that run has no such row.',
        _SAME,
    )
    return StageTable(
        device=device,
        how="Recorded at the 0.6B shape in bf16: nothing was run here. Above each stage's figures, "
        "what it changes; below them the first finding of its own diagnosis: what is left to do.",
        rows=rows,
        notes=notes,
    )


def _recorded_row(
    name: str, directory: Path, together: _Measured | None, *, weight_bytes: int | None
) -> StageRow:
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.recording import read_recording

    diagnosis = analyze_path(directory).diagnosis
    step, ceilings = diagnosis.step, read_recording(directory).ceilings
    step_ns = step.unprofiled_ns.median if step and step.unprofiled_ns else None
    bandwidth = ceilings.read_bytes_per_s if ceilings else None
    mbu = None
    if step_ns and weight_bytes and bandwidth:
        mbu = weight_bytes / (step_ns / 1e9) / bandwidth
    first = diagnosis.findings[0].summary if diagnosis.findings else None
    return StageRow(
        name=name,
        lesson=LESSONS[name],
        step_ns=step_ns,
        kernels=step.kernels if step else None,
        launches=step.launches if step else None,
        graph_launches=step.graph_launches if step else None,
        syncs=together.syncs if together else None,
        mbu_share=mbu,
        same_tokens=together.same_tokens if together else None,
        compared_tokens=together.compared_tokens if together else None,
        finding=first,
        why_no_finding=_why_no_finding(diagnosis),
    )


def _why_no_finding(diagnosis: Diagnosis) -> str:
    clear = units.counted(len(diagnosis.cleared), "rule is", "rules are")
    return f"{clear} clear, {len(diagnosis.skipped)} could not tell"


def measured_stages(
    command: tuple[str, ...] = _COMMAND, *, timeout_s: float = TIMEOUT_S
) -> StageTable | str:
    """Run every stage on this machine's GPU, in a child process; or why there is nothing to run on.

    Raises:
        DecodeprofError: there is a GPU, and the run on it came to a bad end.
    """
    messages, ended = _said_by(command, timeout_s=timeout_s)
    about = next((message for message in messages if "device" in message), None)
    if about is None:
        return ended or "the run said nothing"
    if about["device"] is None:
        return "torch finds no GPU"
    found: dict[str, _Measured] = {}
    left_out = []
    for message in messages:
        if "reason" in message:
            left_out.append(f"{message['name']}: {message['reason']}")
        elif "step_ns" in message:
            stage = msgspec.convert(message, _Measured)
            found[stage.name] = stage
    if ended and not found:
        raise DecodeprofError("the stages could not be run", why=ended)
    if ended:
        left_out.append(f"what is missing was not measured: {ended}")
    return StageTable(
        device=about["device"],
        how=f"Measured here with torch {about['torch']}: all stages in one process, timed without "
        "a profiler first, then counted with one. Above each stage's figures, what it changes.",
        rows=tuple(_measured_row(stage) for stage in found.values()),
        notes=(_MBU, _SAME),
        left_out=tuple(left_out),
    )


def _measured_row(stage: _Measured) -> StageRow:
    return StageRow(
        name=stage.name,
        lesson=LESSONS[stage.name],
        step_ns=stage.step_ns,
        kernels=stage.kernels,
        launches=stage.launches,
        graph_launches=stage.graph_launches,
        syncs=stage.syncs,
        mbu_share=stage.mbu_share,
        same_tokens=stage.same_tokens,
        compared_tokens=stage.compared_tokens,
    )


def _said_by(command: tuple[str, ...], *, timeout_s: float) -> tuple[list[dict[str, Any]], str]:
    """What the child said, and how it ended where that was not well."""
    from decodeprof.cli.checks.torch import ending

    code = None
    # A file, not a pipe: what a hanging child had said by then is kept.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=timeout_s,
                check=False,
            ).returncode
        out.seek(0)
        err.seek(0)
        messages = _decoded(out.read())
        if code is None:
            return messages, f"it was stopped after {timeout_s:g} s"
        return messages, ending(code, err.read()) if code else ""


def _decoded(output: bytes) -> list[dict[str, Any]]:
    messages = []
    for text in output.splitlines():
        try:
            messages.append(msgspec.json.decode(text, type=dict[str, Any]))
        except msgspec.DecodeError:
            continue  # torch or a compiler printed something
    return messages
