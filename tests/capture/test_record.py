"""Recordings of targets that behave, made by real child processes."""

import gzip
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import msgspec

from decodeprof import mark
from decodeprof.capture.job import Order
from decodeprof.capture.process import run_child
from decodeprof.diagnosis.pipeline import analyze_path
from tests.capture.conftest import Ran, job

Runs = dict[str, Future[Ran]]


class _Event(msgspec.Struct):
    name: str = ""
    cat: str = ""


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]


def marks(ran: Ran, name: str) -> list[dict[str, str]]:
    """The values of each mark of that name, in the order of the trace."""
    data = gzip.decompress((ran.out / "trace.json.gz").read_bytes())
    parsed = [
        mark.parse(event.name)
        for event in msgspec.json.decode(data, type=_Trace).traceEvents
        if event.cat == "user_annotation"
    ]
    return [values for found, values in filter(None, parsed) if found == name]


def test_a_function_on_the_cpu_is_a_whole_recording(runs: Runs) -> None:
    ran = runs["function"].result()
    assert ran.error is None
    assert ran.recording is not None
    assert ran.statuses == {
        "warmup": "done",
        "timing": "done",
        "ceilings": "skipped",
        "profile": "done",
        "sync_debug": "skipped",
        "operations": "skipped",
        "gpu_trace": "skipped",
    }
    target = ran.recording.target
    assert (target.spec, target.kind) == ("loop.py:generate", "function")
    assert (target.new_tokens, target.new_tokens_from, target.batch) == (16, "returned list", 1)
    assert target.arguments == {"model": "Tiny", "prompt": "[1,2,3]"}
    assert target.given == ["model=@model", "prompt=[1,2,3]"]
    assert ran.recording.device is None
    assert ran.caveats == ""


def test_every_step_of_every_run_is_timed(runs: Runs) -> None:
    recording = runs["function"].result().recording
    assert recording is not None
    timing = recording.timing
    assert timing is not None
    assert timing.method == "host_clock"
    assert len(timing.runs) >= 1
    for run in timing.runs:
        assert run.steps == 15
        assert len(run.step_ns) == 15
        assert run.ttft_ns is not None
        assert 0 < run.ttft_ns < run.total_ns
        # The call's begin, the prefill and the steps follow each other; its end is a little later.
        assert run.ttft_ns + sum(run.step_ns) <= run.total_ns
        assert run.step_ns == run.host_step_ns


def test_marks_tell_the_calls_boundaries(runs: Runs) -> None:
    ran = runs["function"].result()
    assert len(marks(ran, mark.CALL)) == 1
    forwards = marks(ran, mark.FORWARD)
    assert forwards == [{"m": "0", "q": "3", "b": "1"}] + [{"m": "0", "q": "1", "b": "1"}] * 15


def test_the_model_is_described_by_its_outermost_module(runs: Runs) -> None:
    recording = runs["function"].result().recording
    assert recording is not None
    model = recording.model
    assert model is not None
    assert model.name == "Tiny"
    # The head shares the embedding's 64 x 16 weights; the block has 16 x 16 and 16.
    assert model.parameters == 64 * 16 + 16 * 16 + 16
    assert model.parameter_bytes == 4 * model.parameters
    assert model.embedding_bytes == 0
    assert model.dtypes == {"float32": model.parameter_bytes}


def test_a_model_whose_tensors_alone_are_used_is_described_and_said(runs: Runs) -> None:
    ran = runs["tensors_alone"].result()
    assert ran.recording is not None
    model = ran.recording.model
    assert model is not None
    assert (model.name, model.parameters) == ("Tiny", 64 * 16 + 16 * 16 + 16)
    assert "no module is called: the weights are taken to be those of `Tiny`" in ran.caveats


def test_a_trace_holds_no_absolute_path_and_no_host(runs: Runs) -> None:
    ran = runs["function"].result()
    data = gzip.decompress((ran.out / "trace.json.gz").read_bytes())
    assert b"host_name" not in data
    assert b'"traceName": "trace.json"' in data or b'"traceName":"trace.json"' in data
    assert str(ran.out.parent).encode() not in data
    written = (ran.out / "recording.json").read_bytes()
    assert str(ran.out.parent).encode() not in written
    assert sys.prefix.encode() not in written


def test_no_temporary_file_is_left(runs: Runs) -> None:
    ran = runs["function"].result()
    assert {each.name for each in ran.out.iterdir()} == {"recording.json", "trace.json.gz"}


def test_progress_names_the_passes_in_order(runs: Runs) -> None:
    names = list(dict.fromkeys(each.pass_name for each in runs["function"].result().progress))
    # Those that need a GPU have nothing to do here, and are not announced.
    assert names == ["load", "warmup", "timing", "profile"]


def test_a_long_call_is_profiled_for_its_first_steps(runs: Runs) -> None:
    ran = runs["long"].result()
    assert ran.recording is not None
    assert ran.recording.target.arguments["prompt"] == "list of 3"
    profile = next(each for each in ran.recording.passes if each.name == "profile")
    assert "the first 36 decode steps" in profile.reason
    assert len(marks(ran, mark.FORWARD)) == 37
    assert ran.recording.timing is not None
    assert {run.steps for run in ran.recording.timing.runs} == {49}


def test_yields_are_steps_where_no_module_is_called(runs: Runs) -> None:
    ran = runs["arithmetic"].result()
    assert ran.recording is not None
    assert ran.recording.target.kind == "generator"
    assert ran.recording.target.new_tokens_from == "yields"
    assert ran.recording.target.new_tokens == 12
    assert ran.recording.timing is not None
    assert {run.steps for run in ran.recording.timing.runs} == {11}
    # The last one is asked for in vain.
    assert len(marks(ran, mark.YIELD)) == 13
    assert marks(ran, mark.FORWARD) == []


def test_an_async_method_of_an_engine_made_by_a_set_up_function(runs: Runs) -> None:
    ran = runs["method"].result()
    assert ran.recording is not None
    assert ran.recording.target.kind == "async_generator"
    assert ran.recording.target.new_tokens == 8
    assert ran.recording.target.setup == "build"
    assert "changes its argument `prompt`; each call got a new one" in ran.caveats
    assert [values["q"] for values in marks(ran, mark.FORWARD)] == ["2"] + ["1"] * 7


def test_the_first_part_begins_a_step_where_a_loop_calls_the_parts(runs: Runs) -> None:
    ran = runs["pieces"].result()
    assert ran.recording is not None
    forwards = marks(ran, mark.FORWARD)
    assert len(forwards) == 10
    assert len({values["m"] for values in forwards}) == 1
    assert ran.recording.timing is not None
    assert {run.steps for run in ran.recording.timing.runs} == {9}


def test_modules_made_anew_are_told_by_their_class(runs: Runs) -> None:
    ran = runs["fresh"].result()
    assert len(marks(ran, mark.FORWARD)) == 10
    assert "made other tokens" in ran.caveats


def test_a_model_compiled_in_place_is_seen_and_not_recompiled(runs: Runs) -> None:
    ran = runs["compiled"].result()
    assert ran.recording is not None
    info = ran.recording.compile
    assert info is not None
    assert info.compiled_graphs == 1
    assert info.graph_breaks == []
    assert info.recompiles == []
    assert info.cudagraph_skips == []
    assert info.cudagraphs_asked is False
    assert len(marks(ran, mark.FORWARD)) == 8


def test_calls_that_differ_are_named(runs: Runs) -> None:
    ran = runs["differs"].result()
    assert "the first three made 5, 6, 5 tokens" in ran.caveats
    assert "changes its argument `seen`, which comes from the script" in ran.caveats


def test_a_target_that_profiles_itself_is_timed_but_not_profiled(runs: Runs) -> None:
    ran = runs["profiles_itself"].result()
    assert ran.error is None
    assert ran.recording is not None
    assert ran.statuses["profile"] == "failed"
    assert ran.statuses["timing"] == "done"
    profile = next(each for each in ran.recording.passes if each.name == "profile")
    assert "runs torch.profiler itself (failing.py:" in profile.reason
    assert not (ran.out / "trace.json.gz").exists()
    assert "times include that profiler's cost" in ran.caveats


def test_a_first_call_is_profiled_alone_from_any_phase(tmp_path: Path) -> None:
    wanted = job("loop.py:generate", setup="arguments")
    order = Order(job=wanted, out=str(tmp_path), mode="first_call", profile_from="setup")
    outcome = run_child(order, limit_s=100, progress=lambda _: None)
    assert outcome.finished is not None
    assert [each.name for each in tmp_path.iterdir()] == ["first_call.json.gz"]
    trace = gzip.decompress((tmp_path / "first_call.json.gz").read_bytes())
    assert trace.count(b"decodeprof.call") == 1
    assert b"aten::embedding" in trace


def test_the_parent_imports_no_torch() -> None:
    code = "import sys, decodeprof.capture; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_targets_own_marks_are_timed(runs: Runs) -> None:
    ran = runs["marked"].result()
    assert ran.recording is not None
    assert ran.recording.timing is not None
    for run in ran.recording.timing.runs:
        assert (run.steps, len(run.step_ns), run.first_token_by) == (9, 9, "mark")
    assert "no steps were seen" not in ran.caveats
    # They stand in the trace once each, as the target made them.
    assert [values["phase"] for values in marks(ran, mark.STEP)] == ["prefill"] + ["decode"] * 9
    assert marks(ran, mark.LOOP) == []


def test_the_first_token_is_timed_to_the_end_of_its_forward_or_to_its_yield(runs: Runs) -> None:
    for name, by in (("function", "forward"), ("arithmetic", "yield"), ("pieces", "")):
        recording = runs[name].result().recording
        assert recording is not None
        assert recording.timing is not None
        for run in recording.timing.runs:
            assert run.first_token_by == by
            assert run.ttft_ns is not None
            if by:
                assert run.first_token_ns is not None
                assert 0 < run.first_token_ns <= run.ttft_ns


def test_tokens_a_second_count_every_token_of_a_forward(runs: Runs) -> None:
    generation = analyze_path(runs["two_a_forward"].result().out).diagnosis.generation
    assert generation is not None
    assert (generation.new_tokens, generation.tokens_per_step) == (12, 2)
    step = analyze_path(runs["two_a_forward"].result().out).diagnosis.step
    assert step is not None
    assert step.unprofiled_ns is not None
    assert generation.tokens_per_s == round(2e9 / step.unprofiled_ns.median, 3)
