"""What does the process say that measures a sweep, and how did it end?"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from decodeprof.cli.sweep_files import Message

COMMAND = (sys.executable, "-P", "-m", "decodeprof.reference.sweep")
_ASKED_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Died(Exception):
    """The process ended badly.

    Attributes:
        why: how, in words.
        by_request: somebody stopped it; no point is to blame.
    """

    def __init__(self, code: int, err: bytes) -> None:
        # Imported where it is needed: it brings torch's checks along.
        from decodeprof.cli.checks.torch import ending

        super().__init__(code)
        self.why = ending(code, err)
        self.by_request = -code in _ASKED_TO_STOP


def said(job: Message, command: tuple[str, ...]) -> Iterator[Message]:
    """Messages of the process as they come.

    Args:
        job: as `decodeprof.reference.sweep.__main__` reads it.
        command: what to start.

    Raises:
        Died: it did not end well.
    """
    with tempfile.TemporaryFile() as errors, _child(command, errors) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(job).encode())
        child.stdin.close()
        for line in child.stdout:
            try:
                message = msgspec.json.decode(line, type=Message)
            except msgspec.DecodeError:
                continue  # torch or a compiler printed something
            yield message
        code = child.wait()
        if code:
            errors.seek(0)
            raise Died(code, errors.read())


@contextmanager
def _child(command: tuple[str, ...], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
