"""Checks run in this process, on a CPU that answers as a GPU: its graphs bake Python values in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from decodeprof.capture.graph_check.checking import Checking
from decodeprof.capture.graph_check.files import RUN_FILE
from decodeprof.capture.here import _Told
from decodeprof.capture.job import Job
from decodeprof.capture.places import Places
from decodeprof.capture.target import parse_spec
from decodeprof.lint.collect import Collector
from decodeprof.lint.pretend import pretended
from decodeprof.model.graph_check import GraphCheckRun

TARGETS = Path(__file__).parent / "targets" / "steps.py"

Check = Callable[..., GraphCheckRun]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Check a function of the targets' script; what its process would have left is returned."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))

    def run(name: str, *args: str, step: str | None = None, buckets: list[str] | None = None):  # type: ignore[no-untyped-def]
        monkeypatch.delitem(sys.modules, TARGETS.stem, raising=False)
        target = f"{TARGETS}:{name}"
        job = Job(target=target, args=list(args), step=step, buckets=buckets or [])
        told = _Told(lambda _: None)
        places = Places(str(TARGETS.parent))
        with pretended(Collector(active=False)):
            checking = Checking(job, parse_spec(target), out=tmp_path, places=places, channel=told)
            checking.run()
        return msgspec.json.decode((tmp_path / RUN_FILE).read_bytes(), type=GraphCheckRun)

    return run
