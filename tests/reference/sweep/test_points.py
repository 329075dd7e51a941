"""A sweep goes from point to point; what fails ends alone, and what is known is not done again."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from decodeprof.reference.sweep import clock, memory, points
from decodeprof.reference.sweep.points import AGAIN, COUNTED, FAILED, TIMED, Limits, measure
from decodeprof.reference.sweep.spec import SweepSpec

CPU = torch.device("cpu")
SPEC = SweepSpec(phase="decode", axis="width", values=(64, 96, 128), context=8)


@pytest.fixture(autouse=True)
def short_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "SAMPLE_SECONDS", 0.002)


def messages(done: dict[int, set[str]] | None = None, **limits: Any) -> list[dict[str, Any]]:
    return list(measure(SPEC, done or {}, device=CPU, limits=Limits(**limits)))


def kinds(said: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(message["value"], message["kind"]) for message in said]


def fails_at(monkeypatch: pytest.MonkeyPatch, width: int, error: Exception) -> None:
    build = points.Builder.build

    def failing(self: points.Builder, point: SweepSpec) -> points.Subject:
        if point.width == width:
            raise error
        return build(self, point)

    monkeypatch.setattr(points.Builder, "build", failing)


def test_a_point_that_cannot_be_built_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at(monkeypatch, 96, ValueError("no such model"))
    said = messages()
    assert kinds(said) == [(64, TIMED), (96, FAILED), (128, TIMED), (64, AGAIN)]
    assert said[1]["reason"] == "ValueError: no such model"
    assert len(said[0]["eager_ns"]) >= clock.FEWEST_SAMPLES
    assert "graph_ns" not in said[0]


def test_what_is_known_is_not_done_again() -> None:
    done = {64: {TIMED, AGAIN}, 96: {FAILED}}
    assert kinds(messages(done)) == [(128, TIMED)]
    assert messages({**done, 128: {TIMED, COUNTED}}) == []


def test_no_point_is_begun_after_its_time() -> None:
    assert messages(seconds=0.0) == []


def test_out_of_memory_ends_its_point(monkeypatch: pytest.MonkeyPatch) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 TiB.\nMore.")
    fails_at(monkeypatch, 64, error)
    said = messages()
    assert kinds(said) == [(64, FAILED), (96, TIMED), (128, TIMED)]
    assert said[0]["reason"] == "out of memory: CUDA out of memory. Tried to allocate 2 TiB."


def test_a_cpu_without_memory_for_a_point_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_memory_bytes", lambda _: 2**63)
    spec = SweepSpec(phase="toy", axis="batch", values=(1, 2**31 - 1), layers=1)
    said = list(measure(spec, {}, device=CPU, limits=Limits()))
    assert kinds(said) == [(1, TIMED), (2**31 - 1, FAILED), (1, AGAIN)]
    assert said[1]["reason"].startswith("out of memory: ")


@pytest.mark.parametrize(
    ("phase", "axis", "fixed"),
    [
        ("decode", "layers", {}),
        ("decode", "batch", {"layers": 1}),
        ("decode", "context", {"layers": 1}),
        ("decode", "width", {"layers": 1}),
        ("prefill", "prompt", {"layers": 1}),
        ("toy", "width", {"layers": 1}),
        ("toy", "layers", {}),
    ],
)
def test_a_point_that_cannot_fit_is_not_built(
    monkeypatch: pytest.MonkeyPatch, phase: str, axis: str, fixed: dict[str, int]
) -> None:
    monkeypatch.setattr(memory, "_memory_bytes", lambda _: 10**10)
    spec = SweepSpec(phase=phase, axis=axis, values=(64, 2**30), **fixed)  # type: ignore[arg-type]
    said = list(measure(spec, {64: {TIMED, AGAIN}}, device=CPU, limits=Limits()))
    assert kinds(said) == [(2**30, FAILED)]
    assert re.fullmatch(r"out of memory: needs about [\d,]+\.\d GB of 10\.0 GB", said[0]["reason"])


def test_warm_up_is_no_part_of_the_samples() -> None:
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            torch.randn(400, 400) @ torch.randn(400, 400)
            sum(range(2_000_000))
        else:
            sum(range(1_000))

    samples = clock.samples_ns(step, on_device=False)
    assert max(samples) < 2_000_000


def test_as_a_process_it_says_the_same() -> None:
    job = {"spec": {"phase": "toy", "axis": "batch", "values": [1, 2], "layers": 2, "width": 16}}
    done = subprocess.run(
        [sys.executable, "-m", "decodeprof.reference.sweep"],
        input=json.dumps({**job, "device": "cpu", "done": {"1": ["timed", "again"]}}),
        capture_output=True,
        text=True,
        check=True,
    )
    about, *said = [json.loads(line) for line in done.stdout.splitlines()]
    assert about == {"device": None, "torch": torch.__version__, "dtype": "float32"}
    assert said[0] == {"begin": 2}
    assert kinds(said[1:]) == [(2, TIMED)]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_each_point_is_timed_and_counted(tmp_path: Path) -> None:
    spec = SweepSpec(phase="toy", axis="batch", values=(8, 1))
    limits = Limits(trace=tmp_path / "first.json.gz")
    said = list(measure(spec, {}, device=torch.device("cuda"), limits=limits))
    assert said[2]["value"] == 1
    text = gzip.decompress((tmp_path / "first.json.gz").read_bytes())
    assert text.count(b'"decodeprof.step phase=decode"') >= 3
    assert b"Input Dims" in text
    assert str(tempfile.gettempdir()).encode() not in text
    assert [kind for _, kind in kinds(said)] == [TIMED, TIMED, AGAIN, COUNTED, COUNTED]
    assert said[3]["eager"]["kernels"] == said[3]["graph"]["kernels"] == 96
