"""Are four decode steps captured, or refused, for the reasons that are known beforehand?

    python tests/gpu/graph_check_h200.py --out FILE.json.gz [--only NAME …]

The eager step of the worked example must be captured, and its time be what replay of a recording
predicted; the plain loop must be stopped by `int(token)` and its growing cache; a counter in Python
must show as a wrong replay; `transformers` on a static cache is what it is. Prints what was found,
and writes everything that was measured. Exit code 0: all as expected.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from decodeprof.capture.graph_check.supervise import check_graph
from decodeprof.capture.job import Job
from decodeprof.errors import DecodeprofError
from decodeprof.model.graph_check import GraphCheckRun

ROOT = Path(__file__).resolve().parents[2]
STEPS = "tests/gpu/targets/graph_steps.py"
TOLERANCE_SHARE = 0.03


@dataclass(frozen=True)
class Case:
    """A target, and the function that is its step."""

    name: str
    target: str
    step: str | None = None


TIMED = Case(
    "eager", "decodeprof.reference.stages:eager", "decodeprof.reference.decoder:FastDecoder._decode"
)
CASES = (
    Case("plain", "decodeprof.reference.stages:plain"),
    Case("counter", f"{STEPS}:counter"),
    Case("static_cache", f"{STEPS}:static_cache"),
)


def main() -> int:
    """Check all cases, print them, write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the compressed results")
    parser.add_argument("--only", action="append", help="a case's name; by default all")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for each case")
    options = parser.parse_args()
    # The processes that capture take their modules from here, installed or not.
    os.environ["PYTHONPATH"] = str(ROOT)
    wanted = options.only or [case.name for case in (*CASES, TIMED)]
    found: dict[str, Any] = {}
    # What is not timed may share the GPU.
    with ThreadPoolExecutor(len(CASES)) as pool:
        chosen = [case for case in CASES if case.name in wanted]
        found |= dict(pool.map(lambda case: _checked(case, options.timeout), chosen))
    if TIMED.name in wanted:
        found[TIMED.name] = _checked(TIMED, options.timeout)[1]
        found["prediction"] = _predicted(options.timeout)
    problems = _judge(found)
    found["problems"] = problems
    with gzip.open(options.out, "wt") as file:
        json.dump(found, file)
    print("\n".join(problems) or "all as expected")
    return 1 if problems else 0


def _checked(case: Case, timeout_s: float) -> tuple[str, dict[str, Any]]:
    begin = time.monotonic()
    job = Job(target=case.target, step=case.step, timeout_s=timeout_s)
    try:
        run = check_graph(job, progress=lambda _: None)
    except DecodeprofError as error:
        told = {"failed": [error.what, error.why, error.hint]}
        print(f"{case.name}: {told}", flush=True)
        return case.name, told
    seconds = round(time.monotonic() - begin, 1)
    shown = msgspec.structs.replace(run, record=None)
    print(f"{case.name} ({seconds} s): {msgspec.json.encode(shown).decode()}", flush=True)
    return case.name, {"seconds": seconds, "run": msgspec.to_builtins(run)}


def _predicted(timeout_s: float) -> dict[str, Any]:
    """What replay says of the graph of the eager step, from a fresh recording."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "decodeprof", "diagnose", TIMED.target, "--json"),
            *("--budget", "4", "--timeout", str(timeout_s), "--out", f"{folder}/recording"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    try:
        diagnosis = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"failed": done.stderr[-2000:]}
    names = ("what_if", "replay", "step", "floors")
    told = {name: diagnosis[name] for name in names}
    print(f"prediction: {json.dumps(told['what_if']['cuda_graph'])}", flush=True)
    return told


def _run_of(found: dict[str, Any], name: str) -> GraphCheckRun | None:
    told = found.get(name, {})
    return msgspec.convert(told["run"], GraphCheckRun) if "run" in told else None


def _judge(found: dict[str, Any]) -> list[str]:
    """What is not as it was expected."""
    problems = [f"{name}: failed" for name, told in found.items() if "failed" in told]
    eager = _run_of(found, "eager")
    if eager is not None:
        problems += _judge_eager(eager, found["prediction"])
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
    return problems


def _judge_eager(run: GraphCheckRun, prediction: dict[str, Any]) -> list[str]:
    attempt = run.attempts[-1] if run.attempts else None
    if attempt is None or not attempt.captured or not attempt.matches or attempt.after is None:
        return ["eager: the step was not captured, or its replay is not the step"]
    what_if = prediction.get("what_if", {}).get("cuda_graph")
    if what_if is None:
        return ["eager: there is no prediction"]
    expected = what_if["step_ns"]["expected"]
    error = attempt.after.median_ns / expected - 1
    print(f"eager: predicted {expected} ns, measured {attempt.after.median_ns} ns: {error:+.2%}")
    return [f"eager: {error:+.2%} off the prediction"] if abs(error) > TOLERANCE_SHARE else []


if __name__ == "__main__":
    sys.exit(main())
