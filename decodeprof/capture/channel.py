"""How does the child speak to its parent? One JSON message a line, on a file descriptor of its own.

The target's own output goes elsewhere, so nothing that it prints can be taken for a message.
Lines that are no JSON are Python stacks, which the fault handler writes when the process dies or
is asked where it is.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading

import msgspec

from decodeprof.capture.job import Message, Progress

WHERE_ARE_YOU = signal.SIGUSR1
_PR_SET_PDEATHSIG = 1


class Channel:
    """The child's end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        # Programs that the target starts must not hold it open.
        os.set_inheritable(descriptor, False)

    def send(self, message: Message) -> None:
        """Send a message; a parent that is gone is no reason to fail."""
        data = msgspec.json.encode(message) + b"\n"
        with self._lock:
            while data:
                try:
                    data = data[os.write(self._descriptor, data) :]
                except OSError:
                    return  # The parent is gone, or the target closed what it found open.

    def progress(self, pass_name: str, text: str, fraction: float | None = None) -> None:
        """Say where the recording stands."""
        self.send(Progress(pass_name=pass_name, text=text, fraction=fraction))

    def outlive_parent(self) -> None:
        """Take back what `prepare_process` asked for: this process may outlive its parent."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)

    def prepare_process(self) -> None:
        """Die with the parent, answer Ctrl-C, and write the stack when dying or when asked."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # A shell starts background jobs with SIGINT ignored; the parent's request is still one.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        faulthandler.enable(file=self._descriptor, all_threads=False)
        faulthandler.register(WHERE_ARE_YOU, file=self._descriptor, all_threads=False)
