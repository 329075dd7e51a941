"""Runs each target once, in a real child process, several at a time."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from decodeprof.capture import Job, Progress, record
from decodeprof.errors import DecodeprofError
from decodeprof.recording import Recording, read_recording

SCRIPTS = Path(__file__).with_name("scripts")
_AT_ONCE = 4


@dataclass(frozen=True)
class Ran:
    """What came of a recording."""

    out: Path
    recording: Recording | None
    error: DecodeprofError | None
    progress: list[Progress]
    seconds: float

    @property
    def statuses(self) -> dict[str, str]:
        assert self.recording is not None
        return {report.name: report.status for report in self.recording.passes}

    @property
    def caveats(self) -> str:
        assert self.recording is not None
        return "\n".join(self.recording.caveats)


def run(job: Job, out: Path) -> Ran:
    """Record, whatever comes of it."""
    progress: list[Progress] = []
    error = None
    begin = time.monotonic()
    try:
        record(job, out=out, progress=progress.append)
    except DecodeprofError as caught:
        error = caught
    seconds = time.monotonic() - begin
    written = (out / "recording.json").exists()
    return Ran(out, read_recording(out) if written else None, error, progress, seconds)


def job(target: str, *args: str, setup: str | None = None, timeout_s: float = 100) -> Job:
    """A job on one of the scripts, with little time for timing."""
    return Job(
        target=f"{SCRIPTS}/{target}",
        args=list(args),
        setup=setup,
        timeout_s=timeout_s,
        budget_s=0.2,
    )


JOBS = {
    # The slowest first.
    "hangs": job("failing.py:hangs", timeout_s=20),
    "function": job("loop.py:generate", "model=@model", "prompt=[1,2,3]"),
    "long": job("loop.py:generate", "max_new_tokens=50", setup="arguments"),
    "arithmetic": job("loop.py:arithmetic"),
    "method": job("loop.py:Engine.stream", "prompt=[4]", setup="build"),
    "pieces": job("loop.py:pieces"),
    "tensors_alone": job("loop.py:tensors_alone"),
    "marked": job("loop.py:marked"),
    "two_a_forward": job("loop.py:two_a_forward"),
    "in_a_thread": job("loop.py:in_a_thread"),
    "endless": msgspec.structs.replace(job("loop.py:endless"), new_tokens=9),
    "fresh": job("loop.py:fresh"),
    "compiled": job("compiled.py:generate"),
    "profiles_itself": job("failing.py:profiles_itself"),
    "differs": job("failing.py:differs", "seen=@seen"),
    "missing_arguments": job("loop.py:generate_sequence"),
    "raises_at_call_3": job("failing.py:raises_at_call_3"),
    "raises_late": job("failing.py:raises_late"),
    "exits": job("failing.py:exits"),
    "leaves": job("failing.py:leaves"),
    "crashes": job("failing.py:crashes"),
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ran]]]:
    """Every job of `JOBS`, started; a test waits for its own."""
    folder = tmp_path_factory.mktemp("recordings")
    pool = ThreadPoolExecutor(_AT_ONCE)
    yield {name: pool.submit(run, each, folder / name) for name, each in JOBS.items()}
    pool.shutdown(cancel_futures=True)
