"""What real files hold that a reader does not expect; one known answer each."""

import itertools
import json
from typing import Any

import pytest

from decodeprof.ingest.torch_trace import parse
from decodeprof.model.calls import CallKind
from decodeprof.model.trace import ActivityKind, Trace

_NO = object()


def row(cat: str, name: str, ts: Any, dur: Any = 1, **fields: Any) -> dict[str, Any]:
    """An event; a field given as `_NO` is not there."""
    event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}
    event |= fields
    return {key: value for key, value in event.items() if value is not _NO}


def kernel(ts: Any, dur: Any = 1, *, name: str = "k", **args: Any) -> dict[str, Any]:
    """A kernel on device 0, stream 7, with these arguments."""
    whole = {"device": 0, "stream": 7} | args
    return row(
        "kernel",
        name,
        ts,
        dur,
        pid=0,
        tid=7,
        args={key: value for key, value in whole.items() if value is not _NO},
    )


def launch(ts: Any, correlation: Any, *, name: str = "cudaLaunchKernel", **fields: Any) -> Any:
    """A runtime call."""
    return row("cuda_runtime", name, ts, **{"args": {"correlation": correlation}} | fields)


def read(*events: dict[str, Any], **top: Any) -> Trace:
    """Read events as a file."""
    return parse(json.dumps({**top, "traceEvents": list(events)}).encode(), name="t.json")


def linked(trace: Trace) -> list[int | None]:
    """For each activity the start of its launch call; None: no launch."""
    calls = trace.calls.start_ns
    return [None if call < 0 else int(calls[call]) for call in trace.device.call.tolist()]


def test_correlation_0_joins_nothing() -> None:
    trace = read(launch(0, 0), launch(1, 0), kernel(5, correlation=0), kernel(7, correlation=0))
    assert linked(trace) == [None, None]
    assert trace.device.correlation.tolist() == [-1, -1]


def test_many_activities_belong_to_one_graph_launch() -> None:
    events = [kernel(10 + 2 * i, correlation=55) for i in range(300)]
    trace = read(launch(0, 55, name="cudaGraphLaunch"), *events)
    assert set(linked(trace)) == {0}
    assert trace.calls.kind.tolist() == [CallKind.GRAPH_LAUNCH]


def test_kernels_without_launches_and_launches_without_kernels() -> None:
    trace = read(launch(0, 1), launch(2, 2), kernel(5, correlation=2), kernel(9, correlation=3))
    assert linked(trace) == [2_000, None]
    assert len(trace.calls) == 2
    assert trace.caveats == ()


def test_launches_alone_still_mean_that_the_device_was_watched() -> None:
    trace = read(launch(0, 1), launch(2, 2))
    assert len(trace.device) == 0
    assert "device" in trace.captured
    assert trace.span_ns() is None


def test_host_ops_alone_do_not() -> None:
    trace = read(row("cpu_op", "aten::mm", 0))
    assert "device" not in trace.captured
    assert "calls" not in trace.captured
    assert trace.captured == {"ops", "annotations"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_driver_call_inside_a_runtime_call_with_one_correlation(order: Any) -> None:
    events = [
        row("cuda_driver", "cuKernelGetFunction", 0, 9, args={"correlation": 7}),
        row("cuda_runtime", "cudaLaunchKernel", 1, 5, args={"correlation": 7}),
        row("cuda_driver", "cuLaunchKernel", 2, 3, args={"correlation": 7}),
    ]
    trace = read(*[events[i] for i in order], kernel(20, correlation=7))
    # Not the first call but the first that launches.
    assert linked(trace) == [1_000]


def test_events_that_are_out_of_order() -> None:
    trace = read(kernel(9, name="c"), kernel(1, name="a"), launch(0, 1), kernel(5, name="b"))
    assert [trace.names[i] for i in trace.device.name] == ["a", "b", "c"]
    assert trace.device.start_ns.tolist() == [1_000, 5_000, 9_000]


def test_negative_and_missing_durations_are_left_out_and_said() -> None:
    trace = read(kernel(0, 2), kernel(3, -1), kernel(5, _NO), kernel(7, None), kernel(9, "NaN"))
    assert trace.device.end_ns.tolist() == [2_000]
    assert trace.caveats == (
        "1 event with a negative duration was left out",
        "3 events without a duration were left out",
    )


def test_a_host_event_without_a_duration_is_kept_as_a_moment() -> None:
    trace = read(kernel(0), launch(4, 1, dur=_NO))
    assert (trace.calls.start_ns.tolist(), trace.calls.end_ns.tolist()) == ([4_000], [4_000])


@pytest.mark.parametrize("ts", [_NO, None, "", "now", [], {}, "inf", True])
def test_an_event_without_a_time_is_left_out_and_said(ts: Any) -> None:
    trace = read(kernel(1), kernel(ts))
    assert len(trace.device) == 1
    assert trace.caveats == ("1 event without a time was left out",)


@pytest.mark.parametrize(
    ("ts", "dur"), [(1, 2**52), (1e15, 1e12 * 86_400), (-(2**52), 1), (2**61 // 1000 * -1, 1)]
)
def test_impossible_times_are_left_out(ts: Any, dur: Any) -> None:
    trace = read(kernel(ts, dur), kernel(1.7e15, 5))
    assert trace.device.end_ns.tolist() == [5_000]
    assert any("left out" in caveat for caveat in trace.caveats)


def test_half_the_events_at_0_have_no_time() -> None:
    late = 5_123_108_928_000
    events = [kernel(late + i, 0.5) for i in range(4)]
    lost = [kernel(0.000, 0.000) for _ in range(4)] + [launch(0.000, 1, dur=0.000)]
    trace = read(*lost, *events)
    assert len(trace.device) == 4
    assert len(trace.calls) == 0
    assert trace.span_ns() == (0, 3_500)
    assert "5 events without a time were left out" in trace.caveats


def test_time_0_is_a_time_where_others_are_near_it() -> None:
    trace = read(kernel(0, 2), kernel(4, 2))
    assert trace.span_ns() == (0, 6_000)
    assert trace.caveats == ()


def test_zero_durations_are_kept() -> None:
    trace = read(kernel(3, 0), kernel(3, 0), kernel(4, 1))
    assert (trace.device.end_ns - trace.device.start_ns).tolist() == [0, 0, 1_000]


def test_a_missing_or_foreign_category_is_no_event_of_ours() -> None:
    trace = read(row(_NO, "x", 0), row("fwdbwd", "y", 1), row("gpu_user_annotation", "z", 2),
                 kernel(5))  # fmt: skip
    assert (len(trace.device), len(trace.annotations), len(trace.ops)) == (1, 0, 0)
    # Their times are not the recording's first either.
    assert trace.device.start_ns.tolist() == [0]


def test_flows_metadata_and_the_window_end_are_not_in_the_span() -> None:
    far = 5_000 + 86_400_000_000
    trace = read(
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": far},
        {"ph": "f", "id": 1, "cat": "ac2g", "name": "ac2g", "ts": 1, "pid": 0, "tid": 7},
        {"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {"name": "python"}},
        row("Trace", "PyTorch Profiler (0)", 2, far, pid="Spans", tid="PyTorch Profiler"),
        kernel(5_000, 10),
    )
    assert trace.span_ns() == (0, 10_000)


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        (_NO, None),
        ([], None),
        (None, None),
        ("nonsense", None),
        ([{"id": 0, "name": ""}], None),
        ([{"id": 0, "name": "  "}], None),
        ([{"id": 0, "name": None}], None),
        ([{"id": 1, "name": "Other"}], None),
        ([{"id": "0", "name": "A100"}], "A100"),
        ([{"id": i, "name": f"GPU {i}"} for i in range(8)], "GPU 0"),
        ([{"id": 0, "name": "NVIDIA\n  H200", "numSms": -1, "totalGlobalMem": 0}], "NVIDIA H200"),
    ],
)
def test_device_descriptions(listed: Any, name: str | None) -> None:
    top = {} if listed is _NO else {"deviceProperties": listed}
    (device,) = read(kernel(0), **top).devices
    assert (device.index, device.name) == (0, name)
    assert device.sm_count is None
    assert device.memory_bytes is None


def test_rocm_names_and_text_arguments() -> None:
    copy = {"device": 2, "stream": 0, "correlation": 4, "bytes": "4096", "kind": "HostToDevice"}
    trace = read(
        launch(0, 3, name="hipExtModuleLaunchKernel"),
        launch(2, 4, name="hipMemcpyWithStream"),
        launch(4, 5, name="hipDeviceSynchronize"),
        kernel(3, device=2, correlation=3, name="Cijk_Ailk_Bljk_HHS"),
        row("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 9, 1, pid=2, tid=0, args=copy),
    )
    assert trace.calls.kind.tolist() == [CallKind.LAUNCH, CallKind.BLOCKING_COPY, CallKind.SYNC]
    assert trace.device.bytes.tolist() == [-1, 4096]
    assert set(trace.device.device.tolist()) == {2}
    assert linked(trace) == [0, 2_000]


def test_old_categories_and_old_argument_names() -> None:
    trace = read(
        row("Operator", "aten::mm", 0, 9, args={"external id": 3, "Input dims": [[2, 3], [3, 4]]}),
        row("Runtime", "cudaLaunchKernel", 1, 2, args={"correlation": 8, "external id": 3}),
        row("Kernel", "gemm", 9, 2, tid="stream 7", args={"correlation": 8, "stream": 7}),
        row("Memcpy", "Memcpy DtoH", 12, 2, args={"Bytes": 64, "stream": 7}),
        row("Memset", "Memset", 15, 2, args={"Bytes": 32, "stream": 7}),
    )
    assert trace.ops.external.tolist() == [3]
    assert trace.calls.external.tolist() == [3]
    assert trace.op_details[0].shapes == ((2, 3), (3, 4))
    kinds = [ActivityKind.KERNEL, ActivityKind.COPY, ActivityKind.SET]
    assert trace.device.kind.tolist() == kinds
    assert trace.device.bytes.tolist() == [-1, 64, 32]
    assert linked(trace) == [1_000, None, None]


@pytest.mark.parametrize(
    ("tid", "args", "stream"),
    [
        (7, {"stream": 20}, 20),
        (1_000_007, {"stream": 7}, 7),
        ("stream 7", {}, 7),
        (13, {}, 13),
        ("13", {}, 13),
        ("Spans", {}, -1),
        ("", {"stream": "stream 9"}, 9),
        ("²", {}, -1),
        ("--5", {}, -1),
        (7, {"stream": 0}, 0),
    ],
)
def test_the_stream_is_the_argument_then_the_row(tid: Any, args: Any, stream: int) -> None:
    trace = read(row("kernel", "k", 0, pid=0, tid=tid, args=args))
    assert trace.device.stream.tolist() == [stream]


@pytest.mark.parametrize(
    ("pid", "args", "device"),
    [(3, {}, 3), (3, {"device": 1}, 1), (70_123, {}, 0), ("", {}, 0), (-1, {}, 0)],
)
def test_the_device_is_the_argument_then_the_row(pid: Any, args: Any, device: int) -> None:
    assert read(row("kernel", "k", 0, pid=pid, args=args)).device.device.tolist() == [device]


def test_arguments_beyond_int64() -> None:
    big = 2**63 + 5
    trace = read(
        row(
            "cpu_op", "aten::fill_", 0, 9, args={"External id": big, "Concrete Inputs": [str(big)]}
        ),
        launch(1, big),
        kernel(5, correlation=big, bytes=2**70, grid=[2**40, 2**40, 1]),
        kernel(7, correlation=True, grid=[4, None, 1], block=[]),
    )
    assert trace.device.correlation.tolist() == [-1, -1]
    assert trace.device.blocks.tolist() == [-1, -1]
    assert trace.ops.external.tolist() == [-1]


def test_arguments_that_are_no_object() -> None:
    trace = read(kernel(0), row("kernel", "k", 2, pid=0, tid=7, args=[1, 2]),
                 row("kernel", "k", 4, pid=0, tid=7, args=None))  # fmt: skip
    # The activities are kept: their times count as busy.
    assert trace.device.start_ns.tolist() == [0, 2_000, 4_000]
    assert trace.device.stream.tolist() == [7, 7, 7]


def test_python_frames_keep_names_with_addresses_and_null_parents() -> None:
    names = [f"<built-in method apply of type object at 0x7f{i:04x}>" for i in range(50)]
    frames = [
        row("python_function", name, i, args={"Python parent id": None, "Python id": i})
        for i, name in enumerate(names)
    ]
    trace = read(*frames, row("python_function", "C:\\x\\a.py(12): f", 60), kernel(70))
    assert [trace.names[i] for i in trace.frames.name] == [*names, "C:\\x\\a.py(12): f"]
    assert "frames" in trace.captured


def test_a_recording_with_stacks_but_no_frame_says_none_not_unknown() -> None:
    assert "frames" in read(kernel(0), with_stack=1).captured
    assert "frames" not in read(kernel(0)).captured


def test_sync_rows_of_every_kind() -> None:
    kinds = ("Stream Sync", "Event Sync", "Context Sync", "Stream Wait Event")
    args = {"stream": 20, "correlation": 6, "wait_on_cuda_event_id": 3,
            "wait_on_cuda_event_record_corr_id": 5}  # fmt: skip
    syncs = [
        row("cuda_sync", kind, i, pid=0, tid=1_000_020, args={"cuda_sync_kind": kind, **args})
        for i, kind in enumerate(kinds)
    ]
    trace = read(kernel(0), *syncs, row("cuda_sync", "Future Sync", 9))
    assert trace.syncs.kind.tolist() == [0, 1, 2, 3]
    assert set(trace.syncs.stream.tolist()) == {20}
    assert set(trace.syncs.recorded_by.tolist()) == {5}
    assert len(trace.device) == 1


@pytest.mark.parametrize("name", ["", "</script><b>", "[red]x[/]", "\x1b[31m", "a\u202eb", "名前"])
def test_hostile_names_are_kept_as_they_are(name: str) -> None:
    assert read(kernel(0, name=name)).names == (name,)


@pytest.mark.parametrize("name", [None, 5, 1.5])
def test_names_that_are_no_text(name: Any) -> None:
    assert read(kernel(0, name=name)).names == (str(name),)


def test_a_list_or_an_object_in_a_name_s_place_is_its_text() -> None:
    assert read(kernel(0, name={"ph": "X"})).names == ('{"ph":"X"}',)
    assert read(kernel(0, name=[1, "a"])).names == ('[1,"a"]',)


def test_versions_are_told() -> None:
    trace = read(kernel(0), cuda_driver_version=13000, cupti_version="130001")
    assert trace.versions == (("cuda_driver", "13000"), ("cupti", "130001"))


def test_a_real_profile_of_this_machine_is_read() -> None:
    torch = pytest.importorskip("torch")
    import tempfile
    from pathlib import Path

    x = torch.ones(3, 5)
    with (
        torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        ) as profiler,
        torch.profiler.record_function("decodeprof.step phase=decode"),
    ):
        torch.mm(x, x.T)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "real.json"
        profiler.export_chrome_trace(str(path))
        trace = parse(path.read_bytes(), name=path.name)
    names = [trace.names[i] for i in trace.ops.name]
    row_of = names.index("aten::mm")
    assert trace.op_details[trace.ops.detail[row_of]].shapes == ((3, 5), (5, 3))
    assert [trace.names[i] for i in trace.annotations.name] == ["decodeprof.step phase=decode"]
    assert trace.caveats == ()
