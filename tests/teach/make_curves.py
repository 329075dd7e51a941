"""Write the page's measured curves from the recordings in fixtures/.

    python -m tests.teach.make_curves

Sweeps over batch that lie in ``fixtures/sweeps``, and, at batch 1, the stages that were recorded
one by one.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

import decodeprof
from decodeprof.analysis.sweeps.judge import host_was_slow
from decodeprof.cli.sweep_judged import judged
from decodeprof.diagnosis.pipeline import analyze_path
from decodeprof.recording import read_recording
from decodeprof.teach.curves import CURVES_FILE, MeasuredCurve, MeasuredPoint

PACKAGE = Path(decodeprof.__file__).parent
FIXTURES = PACKAGE.parent / "fixtures"
PLACE = PACKAGE / "teach" / "templates" / CURVES_FILE
SMALL: dict[str, int | bool | str] = {"proportions": "0.6b", "layers": 28, "width": 1024}
LAUNCHED: dict[str, int | bool | str] = {"graph": False, "sync_every": 0}
"""How the first of a point's dots was measured."""
TWO_SPEEDS = (
    "Its host went back and forth between two speeds, for seconds each, and took half as long "
    "again for a step at the slower one. A launch costs what it did at the middle one of the "
    "launch-bound points; a hollow dot tells of a slow host."
)
SWEEPS: dict[str, tuple[str, dict[str, int | bool | str]]] = {
    "batch06": ("0.6B, 28 layers", {**SMALL, "context": 128, "fused": False}),
    "graph": ("0.6B, fused kernels", {**SMALL, "context": 1024, "fused": True}),
    "batch8x4": (
        "8B, cut to 4 layers",
        {"proportions": "8b", "layers": 4, "width": 4096, "context": 128, "fused": False},
    ),
}


def curves() -> list[MeasuredCurve]:
    found = [sweep_curve(name) for name in SWEEPS if (FIXTURES / "sweeps" / name).is_dir()]
    return [*found, stages_curve()]


def sweep_curve(name: str) -> MeasuredCurve:
    sweep = judged(FIXTURES / "sweeps" / name)
    title, settings = SWEEPS[name]
    assert sweep.launch_cost_ns is not None
    return MeasuredCurve(
        name=title,
        source=f"Measured: {sweep.subject}, on one {sweep.device}, without a profiler. "
        + TWO_SPEEDS,
        settings={
            **settings,
            **LAUNCHED,
            "batch": sweep.points[0].value,
            "launch_ns": sweep.launch_cost_ns.expected,
            "bandwidth_gb_s": round((sweep.bandwidth_bytes_per_s or 0) / 1e9),
        },
        points=[
            MeasuredPoint(
                batch=point.value,
                eager_ns=point.eager_ns,
                graph_ns=point.graph_ns,
                slow_host=host_was_slow(point),
            )
            for point in sweep.points
            if point.failed is None
        ],
    )


def stages_curve() -> MeasuredCurve:
    """The stages `eager` and `graph`, which were recorded at batch 1."""
    steps = {}
    for stage in ("eager", "graph"):
        recording = read_recording(FIXTURES / f"stage_{stage}")
        assert recording.timing is not None
        samples = sorted(ns for run in recording.timing.runs for ns in run.step_ns)
        steps[stage] = samples[(len(samples) - 1) // 2]
    eager = read_recording(FIXTURES / "stage_eager")
    step = analyze_path(FIXTURES / "stage_eager").diagnosis.step
    assert recording.device is not None
    assert eager.ceilings is not None
    assert eager.ceilings.read_bytes_per_s is not None
    assert step is not None
    assert step.launches
    return MeasuredCurve(
        name="0.6B, the worked example",
        source="Measured: the worked example at batch 1, kernel by kernel and as a graph, on one "
        f"{recording.device.name}, without a profiler.",
        settings={
            **SMALL,
            **LAUNCHED,
            "batch": 1,
            "context": 512,
            "fused": False,
            "launch_ns": round(steps["eager"] / step.launches),
            "bandwidth_gb_s": round(eager.ceilings.read_bytes_per_s / 1e9),
        },
        points=[MeasuredPoint(batch=1, eager_ns=steps["eager"], graph_ns=steps["graph"])],
    )


def encoded() -> bytes:
    text = msgspec.json.encode(curves(), order="deterministic")
    return msgspec.json.format(text, indent=1) + b"\n"


if __name__ == "__main__":
    PLACE.write_bytes(encoded())
