"""A live function, recorded in the process that holds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from decodeprof.capture import Job, Progress
from decodeprof.capture.here import record_here
from decodeprof.capture.job import RecordingStopped
from decodeprof.errors import UsageError
from decodeprof.recording import Recording, read_recording

TOKENS = 12


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 16)
        self.head = nn.Linear(16, 64)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.embed(input_ids))
        return logits


def loop(model: nn.Module) -> Callable[..., list[int]]:
    """A function that no other process can import."""

    @torch.no_grad()
    def generate(prompt: list[int], max_new_tokens: int = TOKENS) -> list[int]:
        ids, tokens = torch.tensor([prompt]), list[int]()
        for _ in range(max_new_tokens):
            tokens.append(int(model(ids)[0, -1].argmax()))
            ids = torch.tensor([tokens[-1:]])
        return tokens

    return generate


def record(
    function: Callable[..., Any], out: Path, *, seen: list[Progress] | None = None, **arguments: Any
) -> Recording:
    progress = seen.append if seen is not None else lambda _: None
    job = Job(target="", budget_s=0.1, profile_steps=6)
    assert record_here(function, arguments, job=job, out=out, progress=progress) == out
    return read_recording(out)


def test_it_leaves_what_a_child_process_leaves(tmp_path: Path) -> None:
    out = tmp_path / "run"
    seen: list[Progress] = []
    found = record(loop(Tiny()), out, seen=seen, prompt=[1, 2, 3])
    assert sorted(path.name for path in out.iterdir()) == ["recording.json", "trace.json.gz"]
    assert found.target.spec == "test_here.py:loop.generate"
    assert found.target.arguments == {"prompt": "list of 3"}
    assert (found.target.new_tokens, found.target.kind) == (TOKENS, "function")
    assert found.model is not None
    assert found.model.name == "Tiny"
    assert [(report.name, report.status) for report in found.passes] == [
        ("warmup", "done"),
        ("timing", "done"),
        ("ceilings", "skipped"),
        ("profile", "done"),
        ("sync_debug", "skipped"),
        ("operations", "skipped"),
        ("gpu_trace", "skipped"),
    ]
    assert found.timing is not None
    assert {len(run.step_ns) for run in found.timing.runs} == {TOKENS - 1}
    names = dict.fromkeys(progress.pass_name for progress in seen)
    # What there is to do without a GPU.
    assert list(names) == [report.name for report in found.passes if report.status == "done"]
    assert found.caveats == []


def test_it_leaves_torch_as_it_was(tmp_path: Path) -> None:
    model = Tiny()
    model.compile(backend="eager")
    model(torch.tensor([[1]]))

    def state() -> list[object]:
        wrapper = torch._TorchCompileInductorWrapper  # type: ignore[attr-defined]
        logger = logging.getLogger("torch._inductor.cudagraph_utils")
        return [
            dict(vars(torch.cuda.CUDAGraph)),
            torch.autograd.profiler.profile._start_trace,  # type: ignore[attr-defined]
            wrapper.__init__,
            list(logger.handlers),
            dict(torch_module._global_forward_pre_hooks),
            dict(model._forward_pre_hooks),
            model._compiled_call_impl,
        ]

    before = state()
    for number in range(2):
        record(loop(model), tmp_path / str(number), prompt=[1])
    assert state() == before


def stream() -> Iterator[int]:
    model = Tiny()
    yield from loop(model)([1])


async def answer() -> list[int]:
    await asyncio.sleep(0)
    return loop(Tiny())([1])


async def stream_async() -> AsyncIterator[int]:
    for token in loop(Tiny())([1]):
        yield token


@pytest.mark.parametrize(
    ("function", "kind"),
    [(stream, "generator"), (answer, "coroutine"), (stream_async, "async_generator")],
)
def test_every_kind_of_function_is_recorded(
    function: Callable[..., Any], kind: str, tmp_path: Path
) -> None:
    found = record(function, tmp_path / "run")
    assert (found.target.kind, found.target.new_tokens) == (kind, TOKENS)


def test_positional_only_arguments_are_given_by_name(tmp_path: Path) -> None:
    generate = loop(Tiny())

    def call(prompt: list[int], /, n: int) -> list[int]:
        return generate(prompt, n)

    assert record(call, tmp_path / "run", prompt=[1], n=8).target.new_tokens == 8


def test_a_function_that_fails_at_once_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        raise ValueError("no weights")

    with pytest.raises(RecordingStopped, match="the target raised ValueError in call 1") as raised:
        record(broken, tmp_path / "run")
    assert "no weights" in raised.value.why
    assert isinstance(raised.value.__cause__, ValueError)
    assert raised.value.directory is None or not raised.value.directory.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "error"), [(OSError, RecordingStopped), (KeyboardInterrupt,) * 2]
)
def test_what_was_recorded_before_a_failure_is_kept(
    raised: type[BaseException], error: type[BaseException], tmp_path: Path
) -> None:
    generate, calls = loop(Tiny()), list[int]()

    def later() -> list[int]:
        calls.append(1)
        if len(calls) == 3:
            raise raised("gone")
        return generate([1])

    with pytest.raises(error):
        record(later, tmp_path / "run")
    found = read_recording(tmp_path / "run")
    assert [(report.name, report.status) for report in found.passes] == [("warmup", "partial")]
    assert torch.cuda.CUDAGraph.replay.__qualname__ == "CUDAGraph.replay"


@pytest.mark.parametrize(
    ("function", "arguments", "what"),
    [
        (loop(Tiny()), {"prompts": [1]}, "`loop.generate` cannot be called with these arguments"),
        (loop(Tiny()), {}, "`loop.generate` cannot be called with these arguments"),
        ([1, 2], {}, "a value of type list cannot be called"),
        (len, {"obj": iter([1])}, "the argument `obj` is used up by the first call"),
    ],
)
def test_what_cannot_be_called_is_said_before_anything_runs(
    function: Any, arguments: dict[str, Any], what: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        record(function, tmp_path / "run", **arguments)
    assert raised.value.what == what
    assert list(tmp_path.iterdir()) == []


def test_an_asynchronous_function_cannot_run_inside_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> None:
        record(answer, tmp_path / "run")

    with pytest.raises(UsageError, match="an event loop runs here already"):
        asyncio.run(cell())


def test_a_directory_that_holds_something_is_kept(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UsageError, match="exists and is not empty"):
        record(loop(Tiny()), tmp_path, prompt=[1])
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_says_what_stays_attached(tmp_path: Path) -> None:
    model = Tiny().cuda()

    @torch.no_grad()
    def generate() -> list[int]:
        ids, tokens = torch.tensor([[1]], device="cuda"), list[int]()
        for _ in range(TOKENS):
            ids = model(ids)[:, -1:].argmax(-1)
            tokens.append(int(ids))
        return tokens

    first = record(generate, tmp_path / "1")
    assert any("stays attached" in caveat for caveat in first.caveats)
    statuses = {report.name: report.status for report in first.passes}
    assert statuses["profile"] == statuses["sync_debug"] == "done"
    assert statuses["gpu_trace"] == "skipped"
    second = record(generate, tmp_path / "2")
    assert any("had run in this process before" in caveat for caveat in second.caveats)
