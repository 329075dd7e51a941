"""Diagnoses for the report's tests: a full one, a foreign trace's, and a CPU run's."""

from __future__ import annotations

import msgspec

from decodeprof.model import diagnosis as d

DISTRIBUTION = d.Distribution(median=49_700_000, p10=49_200_000, p90=50_900_000, n=312)
IDLE = d.Idle(
    sync=3_100_000,
    launch=24_130_500,
    dispatch=20_400_000,
    python=9_850_321,
    device=412_000,
    dependency=0,
    unknown=0,
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>,"
    " std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>)"
)
FORWARDS = "steps are the outermost `Qwen3` forwards, noted by the capture"


def figures(**changes: object) -> d.StepFigures:
    step = d.StepFigures(
        unprofiled_ns=DISTRIBUTION,
        profiled_ns=62_400_321,
        profiled_p10_ns=61_900_000,
        profiled_p90_ns=63_000_000,
        n=4,
        dilation=62_400_321 / 49_700_000,
        kernels=2508.0,
        launches=2508.0,
        graph_launches=0.0,
        syncs=1.0,
        busy_ns=4_507_500,
        idle_ns=IDLE,
        launch_latency_ns=d.Distribution(median=5_120, p10=4_700, p90=8_100, n=10_032),
        queue_depth_mean=0.03,
        queue_depth_max=2,
    )
    return msgspec.structs.replace(step, **changes)


def sync_site(**changes: object) -> d.SyncSite:
    site = d.SyncSite(
        file="my_script.py",
        line=41,
        function="generate",
        code="        next_token = int(logits.argmax(-1))",
        op="aten::_local_scalar_dense",
        api="cudaStreamSynchronize",
        calls_per_step=1.0,
        call_ns=3_350_000,
        idle_inside_ns=3_100_000,
        idle_after_ns=190_000,
        exposed_ns=None,
        seen_by=["sync_debug", "gpu_trace", "torch"],
        in_user_code="my_script.py:41 generate",
    )
    return msgspec.structs.replace(site, **changes)


def kernel(family: str, name: str | None, count: float, time_ns: int) -> d.KernelRow:
    return d.KernelRow(
        family=family,
        name=name,
        count_per_step=count,
        time_ns_per_step=time_ns,
        bytes=None,
        achieved_bytes_per_s=None,
    )


def full(**changes: object) -> d.Diagnosis:
    """A recording of a plain loop on a GPU, with everything filled in."""
    return msgspec.structs.replace(
        d.Diagnosis(
            source=d.Source(
                kind="recording",
                name="decodeprof-1",
                captured=["annotations", "calls", "device", "ops", "shapes", "syncs"],
            ),
            counts=d.Counts(
                kernels=12_681,
                device_activities=12_690,
                launches=12_681,
                graph_launches=0,
                launch_calls={"cudaLaunchKernel": 11_000, "cuLaunchKernelEx": 1_681},
                sync_calls={"cudaStreamSynchronize": 5},
            ),
            devices=[
                d.DeviceSummary(
                    index=0, name="NVIDIA H200", busy_ns=23_100_100, span_ns=311_000_000
                )
            ],
            steps=d.Steps(
                method="forwards",
                method_text=FORWARDS,
                prefill=1,
                decode=4,
                steady=3,
                unmeasured=0,
                query_length=1,
                left_out=["the prefill", "the last decode step: nothing follows to end its window"],
                rows=[],
                steps_per_period=1,
            ),
            step=figures(),
            prefill=figures(
                unprofiled_ns=None, profiled_p10_ns=None, profiled_p90_ns=None, dilation=None, n=1
            ),
            generation=d.Generation(
                ttft_ns=d.Distribution(median=58_100_000, p10=57_000_000, p90=60_400_000, n=12),
                ttft_until="forward",
                tokens_per_s=20.1207,
                new_tokens=64,
                batch=1,
                runs=12,
            ),
            floors=d.Floors(
                host_ns=58_300_000,
                busy_ns=4_507_500,
                node_gap_ns=416,
                device_ns=5_550_828,
                bytes_ns=278_900,
                bytes=1_191_000_000,
                flops_ns=None,
                flops=None,
                bandwidth_bytes_per_s=4.27e12,
                node_gap_source="measured",
                bandwidth_source="read, measured",
            ),
            verdict=d.Verdict(
                bound_by="launch",
                sentence=(
                    "Launch-bound: the GPU is idle for 93 % of a 49.7 ms decode step, because the "
                    "host needs longer to launch 2,508 kernels than the GPU needs to run them."
                ),
            ),
            replay=d.Replay(error_share=0.011, host_scale=0.79),
            what_if=d.WhatIfs(
                no_syncs=d.WhatIf(
                    step_ns=d.Range(low=48_900_000, expected=49_100_000, high=49_700_000),
                    in_profiled_time=False,
                    assumes="the wait takes no time",
                ),
                cuda_graph=d.WhatIf(
                    step_ns=d.Range(low=5_400_000, expected=5_550_000, high=5_700_000),
                    in_profiled_time=False,
                    assumes="one launch replays the whole step, 416 ns between activities",
                ),
            ),
            syncs=[
                sync_site(),
                sync_site(
                    file="transformers/masking_utils.py",
                    line=312,
                    function="_ignore_causal_mask_sdpa",
                    code="if padding_mask is not None and padding_mask.all():",
                    calls_per_step=1 / 16,
                    call_ns=31_200,
                    idle_inside_ns=8_100,
                    idle_after_ns=None,
                    exposed_ns=142_000,
                    seen_by=["gpu_trace"],
                    in_user_code="my_script.py:38 generate",
                ),
                sync_site(phase="prefill", calls_per_step=28.0),
            ],
            kernels=[
                kernel("elementwise", None, 1_800.0, 2_400_000),
                kernel("matrix", None, 197.0, 1_500_000),
                kernel("reduction", None, 511.0, 607_500),
                kernel("elementwise", ADD, 700.0, 950_000),
                kernel("matrix", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 112.0, 800_000),
            ],
            findings=[
                d.Finding(
                    code="launch-bound",
                    severity="high",
                    summary="2,508 launches a step take longer than their kernels",
                    saving_ns_per_step=d.Range(
                        low=43_000_000, expected=44_150_000, high=44_300_000
                    ),
                    evidence=[
                        d.Evidence(text="the device is idle for 93 % of a step", kind="MEASURED"),
                        d.Evidence(text="a graph's step would take 5.55 ms", kind="MODELLED"),
                    ],
                    recommendations=[
                        d.Recommendation(
                            what="Capture the decode step in a CUDA graph",
                            how="static buffers for tokens and positions, then torch.cuda.graph",
                            verify="decodeprof diagnose my_script.py:generate",
                            risk="shapes must not change from step to step",
                        )
                    ],
                    where=[
                        d.Where(file="my_script.py", line=38, code="logits = model(tokens, cache)")
                    ],
                )
            ],
            cleared=["per-step-allocations"],
            skipped=[
                d.Skipped(
                    code="memory-traffic",
                    reason="shapes were not recorded",
                    capture="record with shapes",
                )
            ],
            caveats=["the profiled step is 1.26 × the unprofiled one"],
            about=d.About(
                command="decodeprof diagnose my_script.py:generate --arg n=64",
                target="my_script.py:generate",
                arguments={"max_new_tokens": "64"},
                device="NVIDIA H200",
                environment={"python": "3.12.3", "torch": "2.11.0+cu130"},
                passes=[
                    d.PassNote(name="timing", status="done", reason="", seconds=20.0),
                    d.PassNote(
                        name="gpu_trace",
                        status="skipped",
                        reason="this torch has no gpu_trace hooks",
                        seconds=0.0,
                    ),
                ],
                compile={"cudagraph skip": ["skipping cudagraphs due to mutated inputs"]},
            ),
            agreement=agreement(),
        ),
        **changes,
    )


SOURCES = ("unprofiled", "sync_debug", "gpu_trace", "torch", "nsys")


def compared(
    quantity: str, *values: float | None, agrees: bool | None, why: str = ""
) -> d.AgreementRow:
    """One quantity as the five sources saw it."""
    return d.AgreementRow(
        quantity=quantity,
        values=dict(zip(SOURCES, values, strict=True)),
        agrees=agrees,
        explanation=why or None,
    )


def agreement(*rows: d.AgreementRow) -> d.Agreement:
    """Five sources side by side; without rows, one of each answer that there is."""
    said = (
        compared("kernels", None, None, None, 2_508, 2_508, agrees=True),
        compared("launches", None, None, None, 2_508, 2_400, agrees=False),
        compared("graph_launches", None, None, None, 0, None, agrees=None),
        compared(
            "syncs", None, 1, 2, 2, 3, agrees=False, why="the driver's calls: cuCtxSynchronize"
        ),
        compared("busy_ns", None, None, None, 4_507_500, 4_530_100, agrees=True),
        compared(
            "step_ns", 49_700_000, None, None, 62_400_000, 71_100_000, agrees=False, why="slower"
        ),
    )
    return d.Agreement(sources=list(SOURCES), rows=list(rows or said))


def foreign_trace() -> d.Diagnosis:
    """One step of a server's trace that holds device activity and no API calls."""
    idle = d.Idle(sync=0, launch=0, dispatch=0, python=0, device=300, dependency=0, unknown=700)
    step = figures(
        unprofiled_ns=None,
        profiled_ns=3_500,
        profiled_p10_ns=None,
        profiled_p90_ns=None,
        n=1,
        dilation=None,
        kernels=3.0,
        launches=None,
        graph_launches=None,
        syncs=None,
        busy_ns=2_500,
        idle_ns=idle,
        launch_latency_ns=None,
        queue_depth_mean=None,
        steady=False,
    )
    return full(
        source=d.Source(kind="torch", name="server.json.gz", captured=["device"]),
        step=step,
        prefill=None,
        generation=None,
        floors=None,
        verdict=d.Verdict(bound_by="unknown", sentence="Unknown: one step, not steady."),
        replay=d.Replay(error_share=None, host_scale=None),
        what_if=d.WhatIfs(),
        syncs=[],
        kernels=[],
        findings=[],
        cleared=[],
        skipped=[],
        caveats=[],
        about=d.About(),
        agreement=None,
    )


def cpu_run() -> d.Diagnosis:
    """A recording made where there was no GPU."""
    step = figures(
        profiled_ns=None,
        profiled_p10_ns=None,
        profiled_p90_ns=None,
        dilation=None,
        kernels=None,
        launches=None,
        graph_launches=None,
        syncs=None,
        busy_ns=None,
        idle_ns=None,
        launch_latency_ns=None,
        queue_depth_mean=None,
    )
    base = full()
    return full(
        source=d.Source(kind="recording", name="decodeprof-2", captured=["annotations", "ops"]),
        counts=d.Counts(
            kernels=0,
            device_activities=0,
            launches=0,
            graph_launches=0,
            launch_calls={},
            sync_calls={},
        ),
        devices=[],
        step=step,
        prefill=None,
        floors=None,
        verdict=d.Verdict(
            bound_by="unknown",
            sentence="Unknown: a decode step takes 49.7 ms on this CPU; no GPU was there.",
        ),
        what_if=d.WhatIfs(),
        syncs=[],
        kernels=[],
        findings=[],
        cleared=[],
        skipped=[],
        caveats=[],
        about=d.About(target=base.about.target, environment=base.about.environment),
        agreement=None,
    )
