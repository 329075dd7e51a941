"""Recordings on a GPU: every pass, and what only a GPU shows."""

from pathlib import Path

import pytest
import torch

from decodeprof.analysis.hazards import graph_hazards
from decodeprof.capture import Job, RecordingStopped
from decodeprof.capture.scrub import count_events
from decodeprof.recording import read_operations
from tests.capture.conftest import Ran, job, run

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.fixture(scope="module")
def eager(folder: Path) -> Ran:
    return run(job("on_gpu.py:eager"), folder / "eager")


@pytest.fixture(scope="module")
def graphed(folder: Path) -> Ran:
    return run(job("on_gpu.py:graphed"), folder / "graphed")


def test_every_pass_is_done(eager: Ran) -> None:
    assert eager.error is None
    assert set(eager.statuses.values()) == {"done"}, eager.recording
    assert eager.recording is not None
    assert eager.recording.device is not None
    assert eager.recording.timing is not None
    assert eager.recording.timing.method == "cuda_events"
    assert eager.recording.allocator is not None
    assert eager.recording.allocator.peak_allocated_bytes > 0


def test_the_first_token_comes_before_the_second_step(eager: Ran) -> None:
    assert eager.recording is not None
    assert eager.recording.timing is not None
    for each in eager.recording.timing.runs:
        assert each.first_token_by == "forward"
        assert each.first_token_ns is not None
        assert each.ttft_ns is not None
        assert 0 < each.first_token_ns <= each.ttft_ns


def test_every_ceiling_is_measured_and_plausible(eager: Ran) -> None:
    assert eager.recording is not None
    found = eager.recording.ceilings
    assert found is not None
    assert found.launch_ns is not None
    assert 1_000 < found.launch_ns < 100_000
    assert found.graph_node_ns is not None
    assert found.node_gap_ns is not None
    assert 0 < found.node_gap_ns < found.graph_node_ns < found.launch_ns
    assert found.node_gap_set_ns is not None
    assert found.node_gap_copy_ns is not None
    assert found.node_gap_large_ns is not None
    assert found.node_gap_large_ns < found.node_gap_ns
    assert found.profiled_block_ps is not None
    assert 0 <= found.profiled_block_ps < 1_000
    assert found.graph_start_ns is not None
    assert found.node_gap_ns < found.graph_start_ns < 50_000
    # A unit of its own runs them, for which the device stops.
    assert found.node_gap_ns < found.node_gap_set_ns < 20_000
    assert len(found.node_gap_samples_ns) >= 5
    assert found.node_gap_samples_ns[0] == found.node_gap_ns
    assert found.kernel_latency_ns is not None
    assert 1_000 < found.kernel_latency_ns < 100_000
    assert found.graph_launch_ns is not None
    assert found.queue_depth is not None
    assert 100 < found.queue_depth <= 4_096
    assert found.copy_bytes_per_s is not None
    assert found.read_bytes_per_s is not None
    assert 1e11 < found.copy_bytes_per_s < 2e13
    assert 1e11 < found.read_bytes_per_s < 2e13
    assert found.matmul_flops_per_s is not None
    assert found.matmul_flops_per_s > 1e12
    assert found.strided_elements_per_s is not None
    assert 1e10 < found.strided_elements_per_s < found.copy_bytes_per_s


def test_both_detectors_name_the_line_of_the_sync(eager: Ran) -> None:
    assert eager.recording is not None
    for found in (eager.recording.sync_debug, eager.recording.gpu_trace):
        assert found is not None
        sites = [site for site in found.sites if site.code == "tokens.append(int(last))"]
        assert [(site.file, site.function) for site in sites] == [("on_gpu.py", "eager")]
        index = found.sites.index(sites[0])
        steps = [event.step for event in found.events if event.site == index]
        assert steps == list(range(found.steps + 1))
    trace = eager.recording.gpu_trace
    assert trace is not None
    # A device synchronisation is seen by this one alone.
    assert "torch.cuda.synchronize()" in {site.code for site in trace.sites}
    assert eager.recording.sync_debug is not None
    assert "torch.cuda.synchronize()" not in {s.code for s in eager.recording.sync_debug.sites}


def test_the_trace_holds_kernels(eager: Ran) -> None:
    import gzip

    counts = count_events(gzip.decompress((eager.out / "trace.json.gz").read_bytes()))
    assert counts.kernels > 36 * 10
    assert counts.launches >= counts.kernels


def test_a_capture_in_the_first_call_is_profiled_again(graphed: Ran) -> None:
    assert graphed.error is None
    assert graphed.statuses["first_call"] == "done"
    assert (graphed.out / "first_call.json.gz").exists()
    assert graphed.recording is not None
    assert graphed.recording.timing is not None
    assert {each.steps for each in graphed.recording.timing.runs} == {39}


def test_compile_without_graphs_says_why(folder: Path) -> None:
    ran = run(job("on_gpu.py:compiled"), folder / "compiled")
    assert ran.error is None
    assert ran.recording is not None
    info = ran.recording.compile
    assert info is not None
    assert info.cudagraphs_asked
    assert any("mutated inputs" in skip.reason for skip in info.cudagraph_skips)
    assert info.recompiles == []


def test_running_out_of_gpu_memory(folder: Path) -> None:
    ran = run(job("on_gpu.py:too_large"), folder / "large")
    assert isinstance(ran.error, RecordingStopped)
    assert ran.error.what == "the GPU ran out of memory in call 1"
    assert "on_gpu.py:" in ran.error.why


def test_a_target_that_leaves_the_gpu_alone(folder: Path) -> None:
    ran = run(job("on_gpu.py:on_the_cpu_after_all"), folder / "cpu")
    assert ran.recording is not None
    profile = next(each for each in ran.recording.passes if each.name == "profile")
    assert profile.status == "partial"
    assert "no GPU activity" in profile.reason


def test_two_steps_are_recorded_operation_by_operation(folder: Path) -> None:
    loops = Path(__file__).parents[1] / "lint" / "targets" / "loops.py"
    ran = run(Job(target=f"{loops}:counter", budget_s=0.2), folder / "counter")
    record = read_operations(ran.out)
    assert record is not None
    assert record.second.step == record.first.step + 1
    [hazard] = graph_hazards(record)
    assert (hazard.kind, hazard.place.file) == ("scalar", "loops.py")


def test_a_step_that_is_a_graph_is_not_taken_apart(graphed: Ran) -> None:
    assert graphed.statuses["operations"] == "skipped"
    assert read_operations(graphed.out) is None
