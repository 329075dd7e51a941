"""Are decode steps captured, or refused, for the reasons that are known beforehand?

    python tests/gpu/graph_check_h200.py --out FILE.json.gz [--only NAME …] [--repeats N]

The eager step of the worked example must be captured, and its time be what replay of a recording
predicted; `diagnose --graph-check` must show it as measured. The plain loop must be stopped by
`int(token)` and its growing cache; a counter in Python must show as a wrong replay; `transformers`
on a static cache is what it is. `buckets` captures three batch sizes; `piecewise` is a step that
the host reads from halfway: what graphs of its two parts would take is predicted, and measured on
two graphs that were captured by hand. Prints what was found, and writes everything that was
measured, with the device's clocks. Exit code 0: all as expected.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from decodeprof.capture.graph_check.supervise import check_graph
from decodeprof.capture.job import Job
from decodeprof.errors import DecodeprofError
from decodeprof.model.graph_check import GraphCheckRun

ROOT = Path(__file__).resolve().parents[2]
STEPS = "tests/gpu/targets/graph_steps.py"
DECODE = "decodeprof.reference.decoder:FastDecoder._decode"
BUCKET_ROWS = (1, 4, 16)
TOLERANCE_SHARE = 0.03
PIECEWISE_TOLERANCE_SHARE = 0.10
"""Two launches and a wait a step are the host's, whose times spread more than a graph's."""
CLOCK_PERIOD_MS = 500
CLOCKS = "clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"


@dataclass(frozen=True)
class Case:
    """A target, and the function that is its step."""

    name: str
    target: str
    step: str | None = None
    buckets: tuple[str, ...] = ()


TIMED = Case("eager", "decodeprof.reference.stages:eager", DECODE)
PIECEWISE = Case("piecewise", f"{STEPS}:two_parts")
BUCKETS = Case("buckets", f"{STEPS}:batched", DECODE, (f"rows={','.join(map(str, BUCKET_ROWS))}",))
CASES = (
    Case("plain", "decodeprof.reference.stages:plain"),
    Case("counter", f"{STEPS}:counter"),
    Case("static_cache", f"{STEPS}:static_cache"),
)
NAMES = (*(case.name for case in CASES), BUCKETS.name, PIECEWISE.name, TIMED.name)


@dataclass
class Clocks:
    """What nvidia-smi says of the device, twice a second from here on."""

    begin: float = field(default_factory=time.monotonic)
    lines: list[tuple[float, str]] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin to ask; where there is no nvidia-smi, that is the one line."""
        query = [f"--query-gpu={CLOCKS}", "--format=csv,noheader,nounits"]
        command = ["nvidia-smi", *query, f"--loop-ms={CLOCK_PERIOD_MS}"]
        try:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except OSError as error:
            self.lines.append((0.0, f"no clocks: {error}"))
            return
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for each in self.process.stdout:
            self.lines.append((self.now(), each.strip()))

    def now(self) -> float:
        """Seconds since the begin."""
        return round(time.monotonic() - self.begin, 2)

    def stop(self) -> None:
        """Ask no more."""
        if self.process is not None:
            self.process.terminate()


def main() -> int:
    """Check all cases, print them, write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the compressed results")
    parser.add_argument(
        "--only", action="append", choices=NAMES, help="a case; by default all of them"
    )
    parser.add_argument("--timeout", type=float, default=90, help="seconds for each process")
    parser.add_argument("--repeats", type=int, default=2, help="checks of `eager` on its own")
    options = parser.parse_args()
    # The processes that capture take their modules from here, installed or not.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    wanted = options.only or NAMES
    clocks = Clocks()
    clocks.start()
    found: dict[str, Any] = {}

    def add(name: str, told: dict[str, Any]) -> None:
        found[name] = told
        # What is there is kept, whatever ends this process.
        with gzip.open(options.out, "wt") as file:
            json.dump({**found, "clocks": clocks.lines, "clocks_query": CLOCKS}, file)

    try:
        _run(wanted, options.timeout, options.repeats, clocks=clocks, add=add)
    finally:
        clocks.stop()
    problems = _judge(found)
    add("problems", {"told": problems})
    print("\n".join(problems) or "all as expected")
    return 1 if problems else 0


def _run(
    wanted: Any,
    timeout_s: float,
    repeats: int,
    *,
    clocks: Clocks,
    add: Callable[[str, dict[str, Any]], None],
) -> None:
    # What is not timed may share the GPU.
    chosen = [case for case in CASES if case.name in wanted]
    with ThreadPoolExecutor(len(CASES)) as pool:
        results = list(pool.map(lambda case: _checked(case, timeout_s), chosen))
    for case, told in zip(chosen, results, strict=True):
        add(case.name, told)
    if TIMED.name in wanted:
        checks = []
        for index in range(max(1, repeats)):
            checks.append(_checked(TIMED, timeout_s) | {"ended_s": clocks.now()})
            if index == 0:
                add("diagnosed", _diagnosed(timeout_s) | {"ended_s": clocks.now()})
        add(TIMED.name, checks[0])
        add("repeats", {"checks": checks})
    if BUCKETS.name in wanted:
        add(BUCKETS.name, _checked(BUCKETS, timeout_s))
    if PIECEWISE.name in wanted:
        add(PIECEWISE.name, _piecewise(timeout_s))


def _checked(case: Case, timeout_s: float) -> dict[str, Any]:
    begin = time.monotonic()
    job = Job(target=case.target, step=case.step, buckets=list(case.buckets), timeout_s=timeout_s)
    try:
        run = check_graph(job, progress=lambda _: None)
    except DecodeprofError as error:
        told = {"failed": [error.what, error.why, error.hint]}
        print(f"{case.name}: {told}", flush=True)
        return told
    seconds = round(time.monotonic() - begin, 1)
    shown = msgspec.structs.replace(run, record=None)
    print(f"{case.name} ({seconds} s): {msgspec.json.encode(shown).decode()}", flush=True)
    return {"seconds": seconds, "run": msgspec.to_builtins(run)}


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def _diagnosed(timeout_s: float) -> dict[str, Any]:
    """`diagnose --graph-check` of the eager step: its report, and what replay alone says."""
    from decodeprof.diagnosis.pipeline import analyze_path
    from decodeprof.recording import read_recording, write_recording

    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        done = _command(
            *("-m", "decodeprof", "diagnose", TIMED.target, "--graph-check", "--step", DECODE),
            *("--budget", "4", "--timeout", str(timeout_s), "--width", "100"),
            *("--out", str(path), "--debug"),
        )
        told: dict[str, Any] = {
            "seconds": round(time.monotonic() - begin, 1),
            "exit_code": done.returncode,
            "report": done.stdout,
            "talk": done.stderr[-4000:],
        }
        print(f"diagnose --graph-check ({told['seconds']} s):\n{done.stdout}", flush=True)
        try:
            recording = read_recording(path)
            told["recording"] = msgspec.to_builtins(recording)
            told["with_check"] = msgspec.to_builtins(analyze_path(path).diagnosis)
            # The same recording without the check: what replay predicted.
            write_recording(path, msgspec.structs.replace(recording, graph_check=None))
            told["predicted"] = msgspec.to_builtins(analyze_path(path).diagnosis)
        except DecodeprofError as error:
            told["failed"] = [error.what, error.why, done.stderr[-2000:]]
    return told


def _piecewise(timeout_s: float) -> dict[str, Any]:
    """What graphs of a step's parts would take, predicted; and on two real graphs, measured."""
    begin = time.monotonic()
    done = _command(
        *("-m", "decodeprof", "graph-check", PIECEWISE.target, "--json", "--debug"),
        *("--timeout", str(timeout_s)),
    )
    seconds = round(time.monotonic() - begin, 1)
    twin = _command("-m", "tests.gpu.targets.graph_steps")
    try:
        check, measured = json.loads(done.stdout), json.loads(twin.stdout)
    except json.JSONDecodeError:
        return {"failed": [done.stderr[-2000:], twin.stderr[-2000:]], "seconds": seconds}
    shown = {name: check[name] for name in ("verdict", "sentence", "piecewise_ns", "segments")}
    print(f"piecewise ({seconds} s): {json.dumps(shown)}; measured {measured} ns", flush=True)
    return {"seconds": seconds, "check": check, "measured_ns": measured}


def _run_of(found: dict[str, Any], name: str) -> GraphCheckRun | None:
    told = found.get(name, {})
    return msgspec.convert(told["run"], GraphCheckRun) if "run" in told else None


def _judge(found: dict[str, Any]) -> list[str]:
    """What is not as it was expected."""
    problems = [f"{name}: failed" for name, told in found.items() if "failed" in told]
    eager = _run_of(found, "eager")
    if eager is not None and "predicted" in found["diagnosed"]:
        problems += _judge_eager(found)
    plain = _run_of(found, "plain")
    if plain is not None:
        whole = plain.whole_step
        place = whole.error.place if whole is not None and whole.error is not None else None
        if place is None or "int(" not in place.code:
            problems.append("plain: the whole step was not stopped at int(token)")
        changes = [change for each in plain.attempts for change in each.python_changes]
        if not any(change.grows for change in changes):
            problems.append("plain: the growing cache was not named")
    counter = _run_of(found, "counter")
    if counter is not None:
        attempt = counter.attempts[-1]
        if attempt.matches is not False or all(d.input == 1 for d in attempt.differences):
            problems.append("counter: the second input did not show the baked value")
        if not any(change.name.endswith("position") for change in attempt.python_changes):
            problems.append("counter: the counter was not named")
    buckets = _run_of(found, "buckets")
    if buckets is not None:
        right = [each.bucket for each in buckets.attempts if each.matches and each.after]
        if right != [f"rows={rows}" for rows in BUCKET_ROWS]:
            problems.append(f"buckets: captured, right and timed are {right}")
    if "check" in found.get("piecewise", {}):
        problems += _judge_piecewise(found["piecewise"])
    return problems


def _judge_eager(found: dict[str, Any]) -> list[str]:
    """The check in the recording, and each other one, against replay's prediction."""
    diagnosed = found["diagnosed"]
    what_if = diagnosed["predicted"]["what_if"]["cuda_graph"]
    shown = diagnosed["with_check"]["what_if"]["cuda_graph"]
    if what_if is None:
        return ["eager: there is no prediction"]
    problems = []
    if shown is None or not shown["measured"] or "measured: captured" not in diagnosed["report"]:
        problems.append("diagnose --graph-check: the report does not say measured")
    runs = [msgspec.convert(each["run"], GraphCheckRun) for each in _good(found)]
    measured = [shown["step_ns"]["expected"]] if shown is not None else []
    for run in runs:
        attempt = run.attempts[-1] if run.attempts else None
        if attempt is None or not attempt.matches or attempt.after is None:
            problems.append("eager: the step was not captured, or its replay is not the step")
        else:
            measured.append(attempt.after.median_ns)
    expected = what_if["step_ns"]["expected"]
    for each in measured:
        error = each / expected - 1
        print(f"eager: predicted {expected} ns, measured {each} ns: {error:+.2%}")
        if abs(error) > TOLERANCE_SHARE:
            problems.append(f"eager: {error:+.2%} off the prediction")
    return problems


def _good(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found["repeats"]["checks"] if "run" in each]


def _judge_piecewise(told: dict[str, Any]) -> list[str]:
    check, problems = told["check"], []
    if check["verdict"] != "refused" or len(check["segments"]) != 2:
        problems.append("piecewise: not refused, or not in two parts")
    expected = check["piecewise_ns"]
    if expected is None:
        return [*problems, f"piecewise: no prediction: {check['why_no_piecewise']}"]
    measured = statistics.median(told["measured_ns"])
    error = measured / expected - 1
    print(f"piecewise: predicted {expected} ns, measured {measured} ns: {error:+.2%}")
    if abs(error) > PIECEWISE_TOLERANCE_SHARE:
        problems.append(f"piecewise: {error:+.2%} off the prediction")
    return problems


if __name__ == "__main__":
    sys.exit(main())
