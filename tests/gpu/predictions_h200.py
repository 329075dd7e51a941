"""What was predicted, and what was then measured: one table over many workloads.

    python tests/gpu/predictions_h200.py predict --recordings DIR --out FILE
    python tests/gpu/predictions_h200.py measure --predictions FILE --out FILE [--only NAME …]
    python tests/gpu/predictions_h200.py table --predictions FILE --measured FILE

The runs that were kept lie in fixtures/predictions; `report` is their text.

`predict` reads one recording a workload (from ``decodeprof diagnose``) and writes what replay says
of each change; `measure` runs the changed programs, unprofiled. The first file must exist before
the second is made.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Generate = Callable[[int], list[int]]


@dataclass(frozen=True)
class Case:
    """One prediction: which recording, which what-if, and what is measured against it."""

    name: str
    before: str
    what_if: str
    kind: str
    """graph | sync | fusion"""


SLOW_CALL_SECONDS = 0.2
"""Of a call of 20 steps."""
W, S = "tests/gpu/targets/workloads.py", "decodeprof.reference.stages"
CASES = (
    Case("batch1", f"{W}:batch1", "cuda_graph", "graph"),
    Case("batch16", f"{W}:batch16", "cuda_graph", "graph"),
    Case("batch128", f"{W}:batch128", "cuda_graph", "graph"),
    Case("prompt16", f"{W}:prompt16", "cuda_graph", "graph"),
    Case("prompt1024", f"{W}:prompt1024", "cuda_graph", "graph"),
    Case("hf_static", f"{W}:hf_static", "cuda_graph", "graph"),
    Case("toy1", f"{W}:toy1", "cuda_graph", "graph"),
    Case("toy4096", f"{W}:toy4096", "cuda_graph", "graph"),
    Case("joined", f"{W}:joined", "cuda_graph", "graph"),
    Case("eager", f"{S}:eager", "cuda_graph", "graph"),
    Case("graph_read_02", f"{W}:graph_read_02", "no_syncs", "sync"),
    Case("graph_read_1", f"{W}:graph_read_1", "no_syncs", "sync"),
    Case("graph_read_3", f"{W}:graph_read_3", "no_syncs", "sync"),
    Case("medium_read", f"{W}:medium_read", "no_syncs", "sync"),
    Case("toy4096_read", f"{W}:toy4096_read", "no_syncs", "sync"),
    Case("matmul_sync", "tests/gpu/targets/loops.py:matmul_sync", "no_syncs", "sync"),
    Case("plain", f"{S}:plain", "all", "fusion"),
    Case("toy1_fused", f"{W}:toy1", "all", "fusion"),
    Case("batch1_fused", f"{W}:batch1", "all", "fusion"),
    Case("batch16_fused", f"{W}:batch16", "all", "fusion"),
)


def recording_of(case: Case) -> str:
    """Name of the recording that a case reads; some are read twice."""
    return case.before.rpartition(":")[2]


def targets() -> list[str]:
    """Every target to record, once, with the name of its recording."""
    return list(dict.fromkeys(f"{recording_of(case)} {case.before}" for case in CASES))


def predict(recordings: Path) -> dict[str, Any]:
    """What replay says of each case; a recording that is not there is named."""
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.recording import read_recording

    out: dict[str, Any] = {}
    for case in CASES:
        path = recordings / recording_of(case)
        if not (path / "recording.json").exists():
            out[case.name] = {"missing": True}
            continue
        diagnosis = analyze_path(path).diagnosis
        what_if = getattr(diagnosis.what_if, case.what_if)
        decode = diagnosis.step
        ceilings = read_recording(path).ceilings
        step = decode.unprofiled_ns if decode else None
        out[case.name] = {
            "kind": case.kind,
            "what_if": case.what_if,
            "predicted_ns": what_if.step_ns.expected if what_if else None,
            "low_ns": what_if.step_ns.low if what_if else None,
            "high_ns": what_if.step_ns.high if what_if else None,
            "assumes": what_if.assumes if what_if else None,
            "replay_error_share": diagnosis.replay.error_share if diagnosis.replay else None,
            "recorded_step_ns": step.median if step is not None else None,
            "node_gap_ns": diagnosis.floors.node_gap_ns if diagnosis.floors else None,
            "graph_node_ns": ceilings.graph_node_ns if ceilings else None,
            "node_gap_samples_ns": ceilings.node_gap_samples_ns if ceilings else [],
            "busy_ns": decode.busy_ns if decode else None,
            "kernels": decode.kernels if decode else None,
            "predicted_activities": what_if.activities_per_step if what_if else None,
        }
    written_at = time.time()
    return {"cases": {name: {**case, "written_at": written_at} for name, case in out.items()}}


def programs(name: str) -> tuple[Generate, Generate]:
    """The program as it is, and as it is changed."""
    from decodeprof.reference import demo, stages
    from decodeprof.reference.decoder import FastDecoder
    from decodeprof.reference.jobs import KernelOptions
    from tests.gpu.targets import loops
    from tests.gpu.targets import workloads as w

    graphs = ("batch1", "batch16", "batch128", "prompt16", "prompt1024", "hf_static", "toy1",
              "toy4096")  # fmt: skip
    if name in graphs:
        return getattr(w, name), lambda n: w.loop(w.captured(name), n)
    if name == "joined":
        decoder = FastDecoder(
            demo.setup(), w.CAPACITY, mode="graph", joined=True,
            kernels=KernelOptions(norm=True, place=True),
        )  # fmt: skip
        prompt = demo.prompt(demo.setup())
        return w.joined, lambda n: decoder.generate(prompt, n)
    waits = {"graph_read_02": 0.2, "graph_read_1": 1.0, "graph_read_3": 3.0}
    if name in waits:
        return getattr(w, name), lambda n: w.loop(w.captured("batch1"), n, python_ms=waits[name])
    others: dict[str, tuple[Generate, Generate]] = {
        "eager": (stages.eager, stages.graph),
        "medium_read": (w.medium_read, lambda n: w.loop(w.built("medium"), n, python_ms=0.5)),
        "toy4096_read": (w.toy4096_read, w.toy4096),
        "matmul_sync": (loops.matmul_sync, loops.matmul_free),
        "plain": (stages.plain, stages.compiled),
    }
    if name.endswith("_fused"):
        of = name.removesuffix("_fused")
        return getattr(w, of), lambda n: w.loop(w.compiled(of), n)
    return others[name]


def before_is_slow(program: Generate) -> bool:
    """Whether a step takes so long that one round of slopes takes seconds."""
    began = time.perf_counter()
    program(20)
    return time.perf_counter() - began > SLOW_CALL_SECONDS


def measure(names: list[str], out: Path, predictions: dict[str, Any]) -> None:
    """Time both programs of each case, without a profiler; written after each.

    The device changes its speed by itself (`decodeprof.capture.calibration`), so that each repeat
    is measured with the time of a node of a graph before and after it. Repeats go on until two were
    measured as the recording was, or `MOST_REPEATS` were made. A program whose host takes
    that long that no speed of the device matters is timed once.
    """
    from decodeprof.capture.ceilings import device_ns, tiny_graph
    from decodeprof.reference.measure import step_counts, step_ns

    measured: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    probe = tiny_graph()

    def node_ns() -> int:
        return device_ns(probe.replay) // NODES

    for name in names:
        began = time.perf_counter()
        then = Then.of(predictions["cases"].get(name, {}))
        try:
            before, after = programs(name)
            for program in (before, after):
                settle(program)
            repeats: list[Repeat] = []
            slow = before_is_slow(before)
            timed = partial(step_ns, most_tokens=MOST_TOKENS)
            if name in PROMPTED:
                timed = partial(timed, least_seconds=PROMPTED_SECONDS)
            before_ns = step_ns(before, most_tokens=MOST_TOKENS) if slow else 0
            while not enough(repeats, then, most=FEWER_REPEATS.get(name, MOST_REPEATS)):
                nodes = [node_ns()]
                if not slow:
                    before_ns = timed(before)
                    nodes.append(node_ns())
                after_ns = timed(after)
                nodes.append(node_ns())
                repeats.append(Repeat(before_ns, after_ns, tuple(nodes)))
            measured[name] = result(repeats, then) | {"measured_at": time.time()}
        except Exception as error:  # one case's failure must not cost the time of the others
            measured[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
        seconds = time.perf_counter() - began
        print(f"{name}: {seconds:.0f} s {measured[name]}"[:400], flush=True)
        out.write_text(json.dumps(measured, indent=1) + "\n")
    # After every timing: a profiler stays attached, and slows the host.
    for case in CASES:
        if case.kind == "fusion" and case.name in names and "after_ns" in measured[case.name]:
            counts = step_counts(programs(case.name)[1])
            measured[case.name]["after_kernels"] = counts.kernels
            activities = sum(row.count_per_step for row in counts.rows)
            measured[case.name]["after_activities"] = activities
            busy_ns = sum(row.time_ns_per_step for row in counts.rows)
            measured[case.name]["after_busy_ns"] = round(busy_ns)
            print(f"{case.name}: {counts.kernels} kernels", flush=True)
    out.write_text(json.dumps(measured, indent=1) + "\n")


NODES = 1_000
"""Of `decodeprof.capture.ceilings.tiny_graph`."""
MOST_TOKENS = 400
PROMPTED = ("joined", "eager", "plain")
"""Each call begins with a prompt, launched by the host: it takes 20 to 40 ms and varies as much."""
PROMPTED_SECONDS = 1.0
SETTLE_SECONDS = 1.5
SLOWEST_FAST_NODE_NS = 985
"""Between an H200's two speeds: the slow one was 1,008 to 1,155 ns by process, the fast one 17 %
less."""
SLOWEST_FAST_GAP_NS = 240
"""Likewise of the gap between nodes: 370 to 410 ns at the slow speed, 340 less at the fast one."""
SAME_STEP_SHARE = 0.03
WANTED_REPEATS, MOST_REPEATS = 2, 8
FEWER_REPEATS = {"hf_static": 3}
"""Its cache is full after 2,048 steps."""


@dataclass(frozen=True)
class Repeat:
    """Both programs timed once, and the time of a node of a graph around them, in ns."""

    before_ns: int
    after_ns: int
    node_ns: tuple[int, ...]

    def at_speed(self, then: Then) -> bool:
        """Whether the device ran all along as it did when the recording was made.

        Of a step with a sync to remove the step itself tells, since its length is what counts.
        """
        if then.kind == "sync" and then.step_ns is not None:
            return abs(self.before_ns / then.step_ns - 1) <= SAME_STEP_SHARE
        if then.gap_ns is None:
            return True
        fast = then.gap_ns < SLOWEST_FAST_GAP_NS
        return all((each < SLOWEST_FAST_NODE_NS) == fast for each in self.node_ns)


@dataclass(frozen=True)
class Then:
    """What the recording says of the device's speed while it was made."""

    kind: str
    gap_ns: int | None
    """Between two nodes of a graph, at the speed of the timing."""
    step_ns: float | None

    @classmethod
    def of(cls, said: dict[str, Any]) -> Then:
        """As a prediction holds it."""
        return cls(said.get("kind", ""), said.get("node_gap_ns"), said.get("recorded_step_ns"))


def enough(repeats: list[Repeat], then: Then, *, most: int = MOST_REPEATS) -> bool:
    """Whether there are as many repeats at the speed of the recording as are wanted."""
    alike = sum(each.at_speed(then) for each in repeats)
    return alike >= WANTED_REPEATS or len(repeats) >= most


def result(repeats: list[Repeat], then: Then) -> dict[str, Any]:
    """The medians at the speed of the recording; of all repeats where it never came again."""
    alike = [each for each in repeats if each.at_speed(then)]
    return {
        "before_ns": statistics.median(each.before_ns for each in alike or repeats),
        "after_ns": statistics.median(each.after_ns for each in alike or repeats),
        "same_speed": bool(alike),
        "repeats_ns": [[each.before_ns, each.after_ns, *each.node_ns] for each in repeats],
    }


def settle(program: Generate) -> None:
    """Keep the device at work until its clocks are those that it holds."""
    began = time.perf_counter()
    while time.perf_counter() - began < SETTLE_SECONDS:
        program(20)


GRAPH_MEDIAN, GRAPH_WORST, FUSION_WORST = 0.01, 0.025, 0.10
SYNC_SHARE, SYNC_NS, WORTH_REMOVING = 0.20, 5_000, 0.05
"""A sync's saving is missed by at most a fifth of it or 5 µs, where it is over 5 % of the step."""


WIDTH = 100
HEAD = (
    "Predicted from one recording, then measured: the step today, and with one change.",
    "cuda_graph: the step as one graph; no_syncs: the read left out; all: compiled, as one graph.",
    "Every prediction was written before what it foretells was measured.",
)


@dataclass(frozen=True)
class Row:
    """One case, predicted and measured; times in ns."""

    case: Case
    today: float
    predicted: float
    measured: float
    recorded: float
    """The unprofiled step in the recording, from which the prediction's saving counts."""
    activities: tuple[float, float] | None
    """Kernels, memsets and copies of the changed step: predicted, counted."""
    same_speed: bool
    """Measured while the device ran as it did in the recording, as far as anybody looked."""
    within: bool | None
    """Whether it was measured inside the range that was predicted; None: none was kept."""

    @property
    def error(self) -> float:
        """(predicted - measured) ÷ measured."""
        return self.predicted / self.measured - 1

    @property
    def saving(self) -> tuple[float, float]:
        """What the change saves: predicted, measured."""
        return self.recorded - self.predicted, self.today - self.measured


def rows(
    predictions: dict[str, Any], measured: dict[str, Any]
) -> tuple[list[Row], dict[str, list[str]]]:
    """The cases with both figures, and the names of the others by what is missing."""
    found: list[Row] = []
    missing: dict[str, list[str]] = {}
    for case in CASES:
        said, got = predictions["cases"].get(case.name, {}), measured.get(case.name, {})
        if not said.get("predicted_ns") or "after_ns" not in got:
            why = "not run" if not said.get("predicted_ns") else got.get("error", "not measured")
            missing.setdefault(why, []).append(case.name)
            continue
        today, recorded = got["before_ns"], said["recorded_step_ns"] or got["before_ns"]
        counted = said.get("predicted_activities"), got.get("after_activities")
        found.append(
            Row(case, today, said["predicted_ns"], got["after_ns"], recorded,
                counted if None not in counted else None, got.get("same_speed", True),
                within(said, got["after_ns"]))
        )  # fmt: skip
    return found, missing


def within(said: dict[str, Any], measured_ns: float) -> bool | None:
    """Whether a time lies in a prediction's range; None: the range was not kept."""
    if said.get("low_ns") is None or said.get("high_ns") is None:
        return None
    return bool(said["low_ns"] <= measured_ns <= said["high_ns"])


def table(predictions: dict[str, Any], measured: dict[str, Any]) -> str:
    """One line a case: predicted, measured, and how far apart; below, what was aimed at."""
    found, missing = rows(predictions, measured)
    lines = [
        f"{'case':<15} {'change':<11} {'today ms':>9} {'predicted':>9} {'measured':>9} "
        f"{'error':>7}  saving µs: predicted, measured"
    ]
    for row in found:
        ms = [f"{time / 1e6:9.3f}" for time in (row.today, row.predicted, row.measured)]
        saved = [f"{saving / 1e3:9.1f}" for saving in row.saving]
        lines.append(
            f"{row.case.name:<15} {row.case.what_if:<11} {' '.join(ms)} {row.error:+7.1%}  "
            f"{' '.join(saved)}{'' if row.same_speed else '  *'}"
        )
    for why, names in missing.items():
        lines += textwrap.wrap(f"{why}: {', '.join(names)}", WIDTH)
    if not all(row.same_speed for row in found):
        lines.append(
            "* measured while the device, or the step today, ran as it did not in the recording"
        )
    alike = [row for row in found if row.same_speed]
    lines += ["", *aims(found)]
    if alike and len(alike) < len(found):
        lines += ["without *:", *(f"  {line}" for line in aims(alike))]
    return "\n".join(lines)


def report(runs: list[dict[str, Any]]) -> str:
    """The text of several runs, each with its notes."""
    parts = []
    for run in runs:
        notes = [textwrap.fill(note, WIDTH, break_on_hyphens=False) for note in run["notes"]]
        parts += [run["title"], "", table(run["predictions"], run["measured"]), "", *notes, "", ""]
    return "\n".join([*HEAD, "", *parts]).rstrip() + "\n"


def aims(found: list[Row]) -> list[str]:
    """How the errors stand to what was aimed at, a line for each kind of change."""
    lines = []
    graph = sorted(abs(row.error) for row in found if row.case.kind == "graph")
    if graph:
        lines.append(
            f"graph: {len(graph)} cases, median error {statistics.median(graph):.1%} "
            f"(aim {GRAPH_MEDIAN:.0%}), worst {graph[-1]:.1%} (aim {GRAPH_WORST:.1%})"
        )
    judged = [
        (row, abs(row.saving[0] - row.saving[1]))
        for row in found
        if row.case.kind == "sync" and row.saving[1] > WORTH_REMOVING * row.today
    ]
    if judged:
        kept = sum(miss <= max(SYNC_SHARE * row.saving[1], SYNC_NS) for row, miss in judged)
        lines.append(
            f"sync removed: {len(judged)} cases that save more than {WORTH_REMOVING:.0%} of the "
            f"step, {kept} of them within {SYNC_SHARE:.0%} of the saving or {SYNC_NS / 1e3:.0f} µs"
        )
    fusion = sorted(abs(row.error) for row in found if row.case.kind == "fusion")
    if fusion:
        lines.append(
            f"fusion: {len(fusion)} cases, worst error {fusion[-1]:.1%} (aim {FUSION_WORST:.0%})"
        )
    counts = [
        (row.case.name, *row.activities, row.activities[0] / row.activities[1] - 1)
        for row in found
        if row.case.kind == "fusion" and row.activities is not None
    ]
    if counts:
        lines.append("activities left, predicted and counted:")
        lines += [
            f"  {name:<13} {said:6.0f} {got:6.0f} {miss:+7.1%}" for name, said, got, miss in counts
        ]
        lines.append(
            f"  worst {max(abs(miss) for *_, miss in counts):.1%} (aim {FUSION_WORST:.0%})"
        )
    ranged = [row.within for row in found if row.within is not None]
    if ranged:
        lines.append(f"inside the predicted range: {sum(ranged)} of {len(ranged)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["targets", "predict", "measure", "table"])
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--predictions", type=Path)
    parser.add_argument("--measured", type=Path)
    parser.add_argument("--only", action="append")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.part == "targets":
        print("\n".join(targets()))
    elif given.part == "predict":
        given.out.write_text(json.dumps(predict(given.recordings), indent=1) + "\n")
    elif given.part == "measure":
        if not given.predictions.exists():
            parser.error("the predictions come first")
        measure(
            given.only or [case.name for case in CASES],
            given.out,
            json.loads(given.predictions.read_text()),
        )
    else:
        said = json.loads(given.predictions.read_text())
        print(table(said, json.loads(given.measured.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
