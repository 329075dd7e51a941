"""What does the target say while nsys runs it, and when must nsys be ended?

nsys does not always end: with its temporary folder full it waits before it starts the target, and
one of 2022 waits for ever when the target crashed. Its agent, a process of its own, outlives it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from decodeprof.capture.job import Failed, Finished, Message, Progress
from decodeprof.capture.nsys_story import PASS, StoppedBy

_TICK_S = 0.2
_STOP_GRACE_S = 20.0
"""Asked to stop, nsys still writes what it collected."""
_START_S = 120.0
"""nsys starts a target within seconds; a machine under load and a cold disk may take longer."""
_AFTER_FAILURE_S = 60.0
"""A target that failed left little to collect: nsys has written that long before."""


@dataclass
class Heard:
    """What the child said so far."""

    finished: bool = False
    failed: Failed | None = None
    started: bool = False
    read_to: int = 0
    partial: bytes = b""
    crash: str = ""
    """The first line that the fault handler wrote."""
    stopped_by: StoppedBy | None = None


def follow(
    process: subprocess.Popen[bytes],
    messages: Path,
    heard: Heard,
    *,
    limit_s: float,
    progress: Callable[[Progress], None],
) -> None:
    """Listen until nsys ends, or must be asked to end.

    Args:
        process: nsys.
        messages: the file that the child writes to, and holds a lock on while it lives.
        heard: filled with what was said.
        limit_s: after so long nsys is ended.
        progress: told of the child's progress.
    """
    begin = time.monotonic()
    gone: float | None = None
    try:
        while process.poll() is None and heard.stopped_by is None:
            time.sleep(_TICK_S)
            _listen(messages, heard, progress)
            now = time.monotonic()
            if heard.started and gone is None and not _held(messages):
                gone = now
            heard.stopped_by = _to_be_stopped(heard, now - begin, gone and now - gone, limit_s)
    except KeyboardInterrupt:
        heard.stopped_by = "interrupt"
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(_STOP_GRACE_S)
    _listen(messages, heard, progress)


def _to_be_stopped(
    heard: Heard, since_begin_s: float, since_gone_s: float | None, limit_s: float
) -> StoppedBy | None:
    if since_begin_s > limit_s:
        return "timeout"
    if not heard.started and since_begin_s > _START_S:
        return "never_began"
    # After a whole run nsys makes its report, which may take minutes.
    if since_gone_s is not None and not heard.finished and since_gone_s > _AFTER_FAILURE_S:
        return "stuck"
    return None


def _held(messages: Path) -> bool:
    """Whether the child lives: its lock on the file goes with its process, however that ends."""
    with messages.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def hold(descriptor: int) -> None:
    """The child's side: lock the file of its messages for as long as it lives."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX)


def _listen(messages: Path, heard: Heard, progress: Callable[[Progress], None]) -> None:
    with messages.open("rb") as file:
        file.seek(heard.read_to)
        data = file.read()
    heard.read_to += len(data)
    *lines, heard.partial = (heard.partial + data).split(b"\n")
    for line in lines:
        if not line.startswith(b"{"):
            # A stack that the fault handler wrote; its first line names the fault.
            heard.crash = heard.crash or line.decode(errors="replace")
            continue
        message = msgspec.json.decode(line, type=Message)
        heard.started = True
        if isinstance(message, Progress):
            text = f"{message.text} (under nsys)" if message.text else "under nsys"
            progress(Progress(pass_name=PASS, text=text, fraction=message.fraction))
        elif isinstance(message, Failed):
            heard.failed = message
        elif isinstance(message, Finished):
            heard.finished = True


def end(process: subprocess.Popen[bytes]) -> None:
    """End nsys and whatever it started."""
    if process.poll() is None:
        process.kill()
    process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for agent in agents_of(process.pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(agent, signal.SIGKILL)


def agents_of(pid: int) -> list[int]:
    """The agents of an nsys by its process id, which is the end of their session's name."""
    session = re.compile(rb"--session-name[=\0]profile-(?:[^\0]*-)?%d\0" % pid)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # It ended meanwhile.
        if b"--start-agent" in command and session.search(command):
            found.append(int(entry.name))
    return sorted(found)
