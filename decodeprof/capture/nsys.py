"""How is the target run under `nsys profile`, and what is left of it when that goes wrong?

The target runs once more, in a process of its own under nsys: only one profiler may hold CUPTI in a
process. Whatever nsys does, the rest of the recording stands, the file that it left is kept, and
the pass says what to do. nsys's exit code proves nothing: a copy without importer leaves with 0.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from decodeprof.capture.job import Order, Progress
from decodeprof.capture.nsys_scrub import scrub
from decodeprof.capture.nsys_story import PASS, Ended, tell
from decodeprof.capture.nsys_watch import Heard, end, follow
from decodeprof.capture.process import environment
from decodeprof.hardware.nsys import Installed
from decodeprof.recording import NSYS_FILE, PassReport

CHILD = "decodeprof.capture.nsys_child"
_SAID_BYTES = 20_000
"""Of what nsys printed: the end says what went wrong."""
_GENERATED = re.compile(r"^\s+(/\S.*\.(?:nsys-rep|qdrep|qdstrm|sqlite))\s*$", re.MULTILINE)
"""The list of files at the end of what nsys prints."""


def arguments(nsys: Path, out: Path, *, order: Path, messages: Path) -> list[str]:
    """The command, as a list: no shell reads it.

    Args:
        nsys: the program.
        out: the recording's directory.
        order: the file that holds the child's order.
        messages: the file that the child writes its messages to.
    """
    # nsys replaces %h, %p and the like in the name of its report.
    report = str(out / PASS).replace("%", "%%")
    return [
        str(nsys),
        "profile",
        "--trace=cuda,nvtx,osrt",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",
        "--capture-range=cudaProfilerApi",
        # The default ends the target together with the range.
        "--capture-range-end=stop",
        "--wait=primary",
        "--export=sqlite",
        f"--output={report}",
        *(sys.executable, "-P", "-m", CHILD),
        str(order),
        str(messages),
    ]


def record_nsys(
    order: Order,
    *,
    out: Path,
    copies: list[Installed],
    limit_s: float,
    progress: Callable[[Progress], None],
) -> PassReport:
    """Run the target under nsys and say how that went; never raises for what nsys does.

    Args:
        order: as for the recording itself.
        out: the recording's directory; nsys writes into it.
        copies: the nsys that are there, the one to use first.
        limit_s: after so long it is ended.
        progress: told where it stands.
    """
    begin = time.monotonic()
    progress(Progress(pass_name=PASS, text="loading again, under nsys"))
    if not copies:
        return tell(None, out)
    try:
        with tempfile.TemporaryDirectory(prefix="decodeprof-nsys-") as folder:
            ended = _run(order, Path(folder), out, copies[0], limit_s=limit_s, progress=progress)
    except OSError as error:
        # No room for the order's file, or the program cannot be started.
        ended = Ended(nsys=copies[0].path, could_not_start=str(error.strerror or error))
    report = _scrubbed(tell(ended, out), out)
    return msgspec.structs.replace(report, seconds=round(time.monotonic() - begin, 3))


def _run(
    order: Order,
    folder: Path,
    out: Path,
    nsys: Installed,
    *,
    limit_s: float,
    progress: Callable[[Progress], None],
) -> Ended:
    order_file, messages, said = (folder / name for name in ("order", "messages", "said"))
    order_file.write_bytes(msgspec.json.encode(order))
    messages.touch()
    heard = Heard()
    with said.open("wb") as output:
        process = subprocess.Popen(
            arguments(nsys.path, out.resolve(), order=order_file, messages=messages),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment(order),
        )
        try:
            follow(process, messages, heard, limit_s=limit_s, progress=progress)
        finally:
            end(process)
    with said.open("rb") as output:
        output.seek(max(0, said.stat().st_size - _SAID_BYTES))
        text = output.read().decode(errors="replace")
    return Ended(
        nsys=nsys.path,
        returncode=process.returncode,
        said=text,
        started=heard.started,
        finished=heard.finished,
        failed=heard.failed,
        crash=heard.crash,
        stopped_by=heard.stopped_by,
        limit_s=limit_s,
        free_bytes=shutil.disk_usage(out).free,
        temporary_free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        elsewhere=_brought_here(text, out),
    )


def _brought_here(said: str, out: Path) -> list[str]:
    """Move what nsys wrote into another folder, since it could not write here, to here.

    Returns:
        Names of the files that are still elsewhere: there is no room for them here.
    """
    left = []
    for name in _GENERATED.findall(said):
        path = Path(name)
        if path.parent.resolve() == out.resolve() or not path.is_file():
            continue
        target = out / f"{PASS}{path.suffix}"
        if target.exists():
            left.append(path.name)
            continue
        try:
            shutil.move(path, target)
        except OSError:
            # Half a copy is no file that was kept.
            target.unlink(missing_ok=True)
            left.append(path.name)
    return left


def _scrubbed(report: PassReport, out: Path) -> PassReport:
    """Take out of our export what tells of the machine; one that cannot be read goes aside."""
    export = out / NSYS_FILE
    if not export.is_file():
        return report
    try:
        scrub(export)
    except (sqlite3.Error, OSError) as error:
        aside = export.with_name("nsys.unscrubbed.sqlite")
        export.replace(aside)
        reason = (
            f"nsys's export could not be copied without what tells of this machine ({error}); "
            f"kept as nsys wrote it: `{aside.name}`"
        )
        return PassReport(
            name=PASS, status="failed", reason="; ".join(filter(None, [report.reason, reason]))
        )
    return report


def left_raw(out: Path) -> list[str]:
    """What a reader should know of files that nsys wrote itself into a recording."""
    raw = sorted(path.name for path in out.glob("nsys.*") if path.name != NSYS_FILE)
    if not raw:
        return []
    return [
        f"{', '.join(raw)} in the recording: nsys's own, with this machine's environment variables "
        "and processes in it. Leave it out when you share the recording"
    ]
