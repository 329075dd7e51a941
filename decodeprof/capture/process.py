"""How is the recording process run: started, listened to, and ended whatever it does?"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from decodeprof.capture.channel import WHERE_ARE_YOU
from decodeprof.capture.job import Failed, Finished, Message, Order, Progress
from decodeprof.capture.places import Frame
from decodeprof.capture.processes import Holder, descendants, holders

RECORDER = "decodeprof.capture.child"
"""The module that makes a recording."""
_TICK_S = 0.2
_LOOK_EVERY_S = 0.5
"""How often the target's own child processes are looked at, during the warm-up alone."""
_STOP_GRACE_S = 8.0
"""A target that was asked to stop may be inside a long kernel."""
_EXIT_GRACE_S = 5.0
"""After its last message the child has nothing left to do but to end."""
_ANSWER_S = 0.5
"""The fault handler writes a stack at once."""
_CHUNK = 65_536
# Compilers that torch.compile starts; they open no GPU for the target.
_COMPILE_WORKER = "_inductor"
_STACK_LINE = re.compile(r'  File "(.+)", line (\d+) in (.+)')


@dataclass
class Outcome:
    """How the child ended, and what it said."""

    returncode: int = 0
    finished: Finished | None = None
    failed: Failed | None = None
    last_pass: str = "load"
    ended_by: str | None = None
    """timeout | interrupt: why we ended it; None: it ended by itself."""
    stack: list[Frame] = field(default_factory=list)
    """Where it was, innermost first, when it crashed or was asked."""
    holders: list[Holder] = field(default_factory=list)
    """Processes that the target started and that had the GPU open."""


def run_child(
    order: Order,
    *,
    limit_s: float,
    progress: Callable[[Progress], None],
    module: str = RECORDER,
    asked_to_stop: bool = False,
) -> Outcome:
    """Run the child to its end.

    Args:
        order: what it is to do.
        limit_s: after so long it is ended.
        progress: told of its progress.
        module: what the child runs; it calls `capture.child.main`.
        asked_to_stop: at the limit the child is interrupted first, as by Ctrl-C, and has some
            seconds to write what it holds in memory.
    """
    child = _Child(order, progress, module)
    deadline = time.monotonic() + limit_s
    try:
        try:
            child.listen(deadline)
        except KeyboardInterrupt:
            child.outcome.ended_by = "interrupt"
        overdue = asked_to_stop and child.outcome.ended_by == "timeout"
        # Before its first word it is still importing, and can only end in a traceback.
        if child.spoke and (overdue or child.outcome.ended_by == "interrupt"):
            child.signal(signal.SIGINT)
            with contextlib.suppress(KeyboardInterrupt):  # Pressed again: no more patience.
                child.listen(time.monotonic() + _STOP_GRACE_S)
    finally:
        child.end()
    return child.outcome


class _Child:
    def __init__(self, order: Order, progress: Callable[[Progress], None], module: str) -> None:
        self.outcome = Outcome()
        self.spoke = False
        """Whether it has sent a message yet."""
        self._progress = progress
        self._partial = b""
        self._looked = 0.0
        messages, theirs = os.pipe()
        self._process = subprocess.Popen(
            # -P: neither the current folder nor the script's own may shadow what we import.
            [sys.executable, "-P", "-m", module, str(theirs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            start_new_session=True,
            env=environment(order),
        )
        os.close(theirs)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(order))
            self._process.stdin.close()
        self._messages = messages
        self._selector = selectors.DefaultSelector()
        for descriptor, name in ((messages, "messages"), (self._process.stdout, "output")):
            self._selector.register(descriptor, selectors.EVENT_READ, name)

    def listen(self, deadline: float) -> None:
        """Handle what the child says until it ends; at the deadline ask where it is, and return."""
        while True:
            silent = not self._read(_TICK_S)
            if self._process.poll() is not None and silent:
                return
            if self.outcome.finished is not None or self.outcome.failed is not None:
                deadline = min(deadline, time.monotonic() + _EXIT_GRACE_S)
            if time.monotonic() > deadline:
                if self.outcome.finished is None and self.outcome.failed is None:
                    self.outcome.ended_by = self.outcome.ended_by or "timeout"
                    self._ask_where()
                return
            self._look_at_processes()

    def _ask_where(self) -> None:
        if self.outcome.stack:
            return
        self.signal(WHERE_ARE_YOU)
        until = time.monotonic() + _ANSWER_S
        while time.monotonic() < until:
            self._read(_TICK_S)

    def _read(self, wait_s: float) -> bool:
        """Read what there is; False if there was nothing."""
        heard = False
        for key, _ in self._selector.select(wait_s):
            data = os.read(key.fd, _CHUNK)
            if not data:
                self._selector.unregister(key.fileobj)
                continue
            heard = True
            if key.data == "output":
                sys.stderr.write(data.decode(errors="replace"))
                sys.stderr.flush()
                continue
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._handle(line)
        return heard

    def _handle(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            found = _STACK_LINE.match(line.decode(errors="replace"))
            if found:
                self.outcome.stack.append(Frame(found[1], int(found[2]), found[3]))
            return
        message = msgspec.json.decode(line, type=Message)
        self.spoke = True
        if isinstance(message, Progress):
            self.outcome.last_pass = message.pass_name
            self._progress(message)
        elif isinstance(message, Failed):
            self.outcome.failed = message
        else:
            self.outcome.finished = message

    def _look_at_processes(self) -> None:
        now = time.monotonic()
        if self.outcome.last_pass not in ("load", "warmup") or now < self._looked + _LOOK_EVERY_S:
            return
        self._looked = now
        known = {holder.pid for holder in self.outcome.holders}
        self.outcome.holders += [
            holder
            for holder in holders(descendants(self._process.pid))
            if holder.pid not in known and _COMPILE_WORKER not in holder.command
        ]

    def signal(self, number: signal.Signals) -> None:
        """Signal the child itself."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def end(self) -> None:
        """End the child and whatever it started, and close everything."""
        if self._process.poll() is None:
            self._process.kill()
            self.outcome.returncode = self._process.wait()
        else:
            self.outcome.returncode = self._process.returncode
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        while self._selector.get_map() and self._read(0):
            pass
        self._selector.close()
        os.close(self._messages)
        assert self._process.stdout is not None
        self._process.stdout.close()


def environment(order: Order) -> dict[str, str]:
    """The environment of a process that runs the target."""
    environment = dict(os.environ)
    # The profiler's library writes a line to stderr at each start and stop.
    environment.setdefault("KINETO_LOG_LEVEL", "6")
    kind, _, index = (order.job.device or "").partition(":")
    if kind == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    elif index:
        environment["CUDA_VISIBLE_DEVICES"] = index
    return environment
