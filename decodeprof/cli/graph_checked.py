"""How does a capture that was tried get into a recording, and a prediction into a check?"""

from __future__ import annotations

import tempfile
import time
import typing
from pathlib import Path

import msgspec

from decodeprof.cli.progress import Shown
from decodeprof.errors import DecodeprofError

if typing.TYPE_CHECKING:
    from decodeprof.capture import Job
    from decodeprof.model.graph_check import GraphCheck

_PASS = "graph_check"
_NO_GPU = (
    "the target ran on the CPU alone, and a graph is captured on a GPU; `decodeprof lint` predicts "
    "without one"
)
_BUDGET_S = 5.0
"""For the timing of a recording of which only the replay is wanted."""


def check_recorded(job: Job, directory: Path, show: Shown) -> None:
    """Capture the step of a target that was recorded; what came of it is in the recording."""
    from decodeprof.analysis.graph_checked import checked
    from decodeprof.capture.graph_check.supervise import check_graph
    from decodeprof.recording import PassReport, read_recording, write_recording

    recording = read_recording(directory)
    begin = time.monotonic()
    found = None
    if recording.device is None:
        report = PassReport(name=_PASS, status="failed", reason=_NO_GPU)
    else:
        try:
            found = checked(check_graph(job, progress=show))
            report = PassReport(name=_PASS, status="done")
        except DecodeprofError as error:
            reason = "; ".join(part for part in (error.what, error.why) if part)
            report = PassReport(name=_PASS, status="failed", reason=reason.replace("\n", "; "))
    seconds = round(time.monotonic() - begin, 3)
    report = msgspec.structs.replace(report, seconds=seconds)
    recording = msgspec.structs.replace(
        recording, graph_check=found, passes=[*recording.passes, report]
    )
    write_recording(directory, recording)


def with_piecewise(job: Job, found: GraphCheck, show: Shown) -> GraphCheck:
    """The same with the step that graphs of its parts would have, by replay of a recording."""
    from decodeprof.capture import record
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.recording import read_recording, write_recording

    with tempfile.TemporaryDirectory(prefix="decodeprof-graph-") as folder:
        directory = Path(folder) / "recording"
        try:
            record(msgspec.structs.replace(job, budget_s=_BUDGET_S), out=directory, progress=show)
            recording = msgspec.structs.replace(read_recording(directory), graph_check=found)
            write_recording(directory, recording)
            predicted = analyze_path(directory).diagnosis.what_if.piecewise
        except DecodeprofError as error:
            return msgspec.structs.replace(found, why_no_piecewise=error.what)
    if predicted is None:
        why = "replay of a recording has no wait at these lines"
        return msgspec.structs.replace(found, why_no_piecewise=why)
    return msgspec.structs.replace(found, piecewise_ns=predicted.step_ns.expected)
